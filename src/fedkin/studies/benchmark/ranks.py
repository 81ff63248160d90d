"""Ranks of methods over scenarios, with Nemenyi's critical difference (Demšar 2006)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

Scores = Mapping[tuple[str, str], Sequence[float]]

_ALPHA = 0.05


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of methods over scenarios, best first, with tests of their differences.

    `difference` is the critical one at 5 %: methods whose mean ranks are nearer do not differ significantly. It is
    ``None`` with fewer than two methods or scenarios. `p` is that of Friedman's test that all methods are alike;
    ``None`` with fewer than three methods or two scenarios. In `scenarios` all ranked methods have results.
    """

    ranks: dict[str, float]
    difference: float | None
    p: float | None
    scenarios: list[str]

    @property
    def as_good(self) -> list[str]:
        """Return the best method, and those that are not significantly worse."""
        if not self.ranks:
            return []
        best = min(self.ranks.values())
        return [name for name, rank in self.ranks.items() if rank - best <= (self.difference or 0.0)]


def ranked(scores: Scores) -> Ranking:
    """Rank methods by their mean over seeds, scenario by scenario.

    Seeds of one scenario are not independent, so each scenario counts once. Methods that lack a result for a scenario
    that another method has are left out, unless they are the only ones. `scores` are by (scenario, method), one per
    seed; more is better.
    """
    scenarios = list(dict.fromkeys(scenario for scenario, _ in scores))
    methods = [
        method
        for method in dict.fromkeys(method for _, method in scores)
        if all((scenario, method) in scores for scenario in scenarios)
    ]
    if not methods:
        return Ranking({}, None, None, scenarios)
    means = np.array([[float(np.mean(scores[scenario, method])) for method in methods] for scenario in scenarios])
    ranks = np.stack([rankdata(-row) for row in means]).mean(0)
    order = sorted(range(len(methods)), key=lambda at: (ranks[at], methods[at]))
    p = None
    if len(methods) > 2 and len(scenarios) > 1 and not np.allclose(means, means[:, :1]):
        p = float(friedmanchisquare(*means.T).pvalue)
    return Ranking(
        {methods[at]: float(ranks[at]) for at in order}, critical_difference(len(methods), len(scenarios)), p, scenarios
    )


def critical_difference(methods: int, scenarios: int) -> float | None:
    """Return Nemenyi's critical difference of mean ranks at 5 %; ``None`` if there is nothing to compare."""
    if methods < 2 or scenarios < 2:
        return None
    q = float(studentized_range.ppf(1 - _ALPHA, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * scenarios))


def best_of(scores: Scores, scenario: str) -> list[str]:
    """Return the best method of a scenario, and those within two standard errors of it, best first.

    The standard error is that of the difference of means over seeds; with one seed, only methods with the same score
    are returned.
    """
    own = {method: np.array(values) for (name, method), values in scores.items() if name == scenario}
    if not own:
        return []
    order = sorted(own, key=lambda method: (-own[method].mean(), method))
    best = own[order[0]]

    def near(values: np.ndarray) -> bool:
        errors = [part.var(ddof=1) / len(part) if len(part) > 1 else 0.0 for part in (best, values)]
        return bool(best.mean() - values.mean() <= 2 * math.sqrt(sum(errors)))

    return [method for method in order if near(own[method])]
