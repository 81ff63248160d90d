"""The command ``fedkin``. Nothing heavy is imported before a command needs it."""

from fedkin.cli import federation, names, running, runs, studies
from fedkin.cli.app import app, main

__all__ = ["app", "federation", "main", "names", "running", "runs", "studies"]
