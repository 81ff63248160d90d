"""From files, names and arrays to the clients of a federation and the truth only the evaluator sees."""
