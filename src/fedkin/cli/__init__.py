"""The command ``fedkin``. Nothing heavy is imported before a command needs it."""

from fedkin.cli import commands  # noqa: F401
from fedkin.cli.app import app, main

__all__ = ["app", "main"]
