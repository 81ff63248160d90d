"""CSV files as programs and people write them."""
