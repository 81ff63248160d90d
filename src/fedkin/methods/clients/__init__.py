"""Clustered federated learning: which clients belong together, and a model for each cluster. One file per paper."""
