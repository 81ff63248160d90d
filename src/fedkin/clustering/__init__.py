"""Clustering algorithms and metrics on arrays; they know nothing of clients."""
