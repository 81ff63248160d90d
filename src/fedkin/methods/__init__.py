"""Federated clustering methods: one file or package per method."""
