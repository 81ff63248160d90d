"""Reading of data sets: files, arrays, tables, and names on the Hugging Face hub."""
