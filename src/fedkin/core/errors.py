"""Errors that are meant for the person at the keyboard."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FedkinError(ValueError):
    """Bad input, described in one sentence: the value, what is allowed, where it was given.

    The command line prints the sentence and exits with 2; in Python it is a `ValueError`.
    """


class RefusalError(FedkinError):
    """About what a client will not do, however often it is asked."""


def in_short(error: Exception) -> str:
    """Kind and first line of an error, without the full stop."""
    first, *_ = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {first}".rstrip(".: ")


def unknown_name(kind: str, name: str, allowed: Iterable[str]) -> FedkinError:
    """An error for a name that does not exist, with the nearest one that does."""
    names = sorted(allowed)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"allowed: {', '.join(names)}."
    return FedkinError(f"Unknown {kind} '{name}'; {hint}")
