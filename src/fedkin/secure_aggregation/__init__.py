"""Secure aggregation (Bonawitz et al. 2017): the server learns sums over clients, and nothing of any single client.

Noise, which protects what the sums themselves tell, is in `fedkin.privacy`.
"""
