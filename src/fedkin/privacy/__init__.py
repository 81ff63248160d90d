"""Differential privacy: randomised response on bits, Gaussian noise on sums, and clients' budgets.

Sums of which the server sees no single addend are in `fedkin.secure_aggregation`.
"""
