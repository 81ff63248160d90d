"""What users pass to `fit` and `compare`: arrays, DataFrames, torch data sets, paths; `reading/` then reads it."""
