"""Differential privacy: randomised response on bits, Gaussian noise on sums, accounting, and clients' budgets."""
