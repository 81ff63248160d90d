"""Notes on data that look wrong: cells, categories, ranges, and columns that say the same."""
