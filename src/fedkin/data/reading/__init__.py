"""Reading of one data set into tensors: files, arrays, tables, names on the Hugging Face hub; no clients' agreement."""
