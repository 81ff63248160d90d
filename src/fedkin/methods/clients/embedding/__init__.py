"""Clustering clients by randomised bits of an embedding of their data (Prigent et al. 2024)."""
