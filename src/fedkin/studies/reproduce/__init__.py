"""Reproduction of the papers' tables and figures: planned, run, and compared with the printed figures."""
