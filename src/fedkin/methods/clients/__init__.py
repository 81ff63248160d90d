"""Clustered federated learning: which clients belong together, and a model for each group. One file per paper."""
