"""Secure aggregation (Bonawitz et al. 2017): the server learns sums over clients, and nothing of any single client."""
