"""Log of a strategy's rounds: records and metrics, by client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from flwr.app import MetricRecord

V = TypeVar("V")
ByRound = dict[int, MetricRecord]


@dataclass
class RoundLog:
    """Records and metrics of the rounds so far; clients are numbers.

    `done` is the number of rounds of training; `records` are as in `ClusterResult`. `trained`, `evaluated` and
    `evaluated_here` are means over nodes of training and evaluation, and the server's own evaluation, by round; the
    others of evaluation are by round, then by cluster or client. `last_trained` has the metrics of the last training of
    each client.
    """

    done: int = 0
    records: list[dict[str, Any]] = field(default_factory=list)
    trained: ByRound = field(default_factory=dict)
    evaluated: ByRound = field(default_factory=dict)
    evaluated_here: ByRound = field(default_factory=dict)
    evaluated_by_cluster: dict[int, ByRound] = field(default_factory=dict)
    evaluated_by_client: dict[int, ByRound] = field(default_factory=dict)
    last_trained: ByRound = field(default_factory=dict)

    def tree(self) -> dict[str, Any]:
        """Return the log as plain values, for a checkpoint."""
        return {
            "done": self.done,
            "records": [{**one, "missing": _texts(one["missing"], str)} for one in self.records],
            **{name: _texts(getattr(self, name), dict) for name in _METRICS},
            **{name: _texts(getattr(self, name), lambda by: _texts(by, dict)) for name in _DIVIDED},
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> RoundLog:
        """Restore the log from the result of `tree`."""
        log = cls(tree["done"], [{**one, "missing": _numbers(one["missing"], str)} for one in tree["records"]])
        for name in _METRICS:
            setattr(log, name, _numbers(tree[name], MetricRecord))
        for name in _DIVIDED:
            setattr(log, name, _numbers(tree[name], lambda by: _numbers(by, MetricRecord)))
        return log


_METRICS = ("trained", "evaluated", "evaluated_here", "last_trained")
_DIVIDED = ("evaluated_by_cluster", "evaluated_by_client")


def _texts(values: Mapping[int, Any], convert: Callable[[Any], V]) -> dict[str, V]:
    return {str(key): convert(value) for key, value in values.items()}


def _numbers(values: Mapping[str, Any], convert: Callable[[Any], V]) -> dict[int, V]:
    return {int(key): convert(value) for key, value in sorted(values.items(), key=lambda one: int(one[0]))}
