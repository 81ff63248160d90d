"""Scenarios: how a data set is partitioned among clients, and what changes during a run."""
