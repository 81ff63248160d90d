"""Attacks on what clients send: reconstruction of samples, and membership inference."""
