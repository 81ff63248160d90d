"""The papers' tables and figures as experiments: planned, run, and set beside what the papers print."""
