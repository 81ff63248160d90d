"""Record of one step of a method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedkin.core.payload import Traffic


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

    def line(self, step: int, traffic: Traffic, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Return the line of ``records.jsonl``, with the number of the step, the bytes so far, and scores."""
        missing = {str(client): reason for client, reason in self.missing.items()}
        return {
            "step": step, "answered": self.answered, "missing": missing, "values": self.values, "metrics": metrics,
            "sent": traffic.sent, "received": traffic.received,
        }  # fmt: skip
