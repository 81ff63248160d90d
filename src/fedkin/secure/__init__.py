"""Secure aggregation: the server learns sums over clients and nothing of any one of them."""
