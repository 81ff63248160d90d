"""Data of a federation: from files, names and arrays to clients, and to the truth that only the evaluator sees."""
