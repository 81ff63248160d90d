"""Preparation of data: clients agree on a schema, and on how columns are encoded, imputed and scaled."""
