"""Encoding, imputing and scaling of columns by sums over clients."""
