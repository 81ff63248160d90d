"""Options with which each method that groups samples runs in a moment."""

from typing import Any

SMALL: dict[str, dict[str, Any]] = {}
