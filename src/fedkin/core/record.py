"""Record of one step of a method."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Record:
    """Record of a step: one line of ``records.jsonl``.

    Attributes
    ----------
    answered : list of int
        Clients whose replies were used throughout the step.
    missing : dict of int to str
        Clients that failed to give a usable reply at least once, and why.
    values : dict
        Plain JSON values the method reports, such as losses or the number of communities.
    """

    answered: list[int]
    missing: dict[int, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
