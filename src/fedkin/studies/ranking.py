"""Scores of methods, and which one is recommended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from statistics import mean, stdev
from typing import Any

import numpy as np

from fedkin.clustering.metrics import Labels
from fedkin.studies.cells import CellResult, agreement
from fedkin.studies.question import Candidate, Family, Role, role_of

SAME, ALIKE = 0.9, 0.7  # agreement (ARI) from which on two partitions are called the same, and much the same
CHANCE = 0.6  # to which pieces of a single cloud are found again, too (normal and log-normal ones of 600 rows)
TRUTH: dict[Family, tuple[str, ...]] = {
    "samples": ("ari", "nmi", "pooled_accuracy"),
    "clients": ("ari", "ami", "purity"),
}
"""Agreement with the truth, as the evaluation of runs names it."""
SCORE: dict[Family, str] = {"samples": "found_again", "clients": "accuracy"}
"""The measure without truth that methods are ranked by."""


@dataclass(frozen=True)
class Score:
    """Row of a comparison: what the finished runs of a method, in order of seed, came to.

    `number` is the number of clusters it was given. Centralised methods move the data and synthetic ones copies; these
    are not recommended. `measures` are means over runs: ``found_again`` or ``accuracy``, ``stability``, and agreement
    with the truth, if there is one; `deviations` their standard deviations, empty with a single run. `by_client` is the
    mean accuracy of each client's own model on its own tests, where clients are clustered. `remark` says why no run has
    finished.
    """

    method: str
    number: int | None = None
    role: Role = ""
    results: tuple[CellResult, ...] = field(default=(), repr=False)
    measures: dict[str, float] = field(default_factory=dict)
    deviations: dict[str, float] = field(default_factory=dict)
    by_client: tuple[float | None, ...] = ()
    remark: str = ""

    @property
    def candidate(self) -> Candidate:
        """The method with the number of clusters it was given."""
        return Candidate(self.method, self.number)

    @property
    def clusters(self) -> tuple[int, ...]:
        """Number of clusters in each run."""
        return tuple(result.clusters or 0 for result in self.results)

    @property
    def bytes(self) -> float | None:
        """Bytes sent and received, mean over runs; ``None`` without one."""
        return mean(result.bytes for result in self.results) if self.results else None

    @property
    def seconds(self) -> float | None:
        """Computing time, mean over runs; ``None`` without one."""
        return mean(result.seconds for result in self.results) if self.results else None

    @property
    def error(self) -> float | None:
        """Spread of the score over splits, or the standard error of mean accuracy over clients; ``None`` if unknown."""
        accuracies = [accuracy for accuracy in self.by_client if accuracy is not None]
        if len(accuracies) > 1:
            return stdev(accuracies) / math.sqrt(len(accuracies))
        return self.deviations.get("found_again")

    @property
    def labels(self) -> list[Labels]:
        """Clusters of samples or clients, int64 ``(m,)``, by run."""
        return [np.array(result.labels, dtype=np.int64) for result in self.results]

    @cached_property
    def fineness(self) -> float:
        """Number of clusters of one size with the same entropy, mean over runs."""
        numbers = []
        for labels in self.labels:
            shares = np.unique(labels[labels >= 0], return_counts=True)[1] / max(1, (labels >= 0).sum())
            numbers.append(float(np.exp(-(shares * np.log(shares)).sum())) if len(shares) else 0.0)
        return mean(numbers)

    @property
    def value(self) -> float:
        """What methods are ranked by; minus infinity if it is not known."""
        return self.measures.get("found_again", self.measures.get("accuracy", -math.inf))


def score_of(family: Family, candidate: Candidate, results: Sequence[CellResult]) -> Score:
    """Score a candidate by its finished runs, at least one."""
    by_run: dict[str, list[Any]] = {
        "found_again": [result.again for result in results],
        "accuracy": [result.metrics.get("personal_accuracy") for result in results],
        **{name: [result.metrics.get(name) for result in results] for name in TRUTH[family]},
    }
    complete = {name: values for name, values in by_run.items() if None not in values}
    accuracies = [result.metrics["client_accuracy"] for result in results if "client_accuracy" in result.metrics]
    columns = ([value for value in column if value is not None] for column in zip(*accuracies, strict=True))
    score = Score(
        candidate.method,
        candidate.number,
        role_of(candidate.method),
        tuple(results),
        {name: mean(values) for name, values in complete.items()},
        {name: stdev(values) for name, values in complete.items() if len(results) > 1},
        tuple(mean(column) if column else None for column in columns) if family == "clients" else (),
    )
    if len(results) > 1:
        pairs = combinations(score.labels, 2)
        score.measures["stability"] = mean(agreement(first, second, single=1.0) for first, second in pairs)
    return score


@dataclass(frozen=True)
class Choice:
    """Recommended method, with the facts that decided.

    `as_good` cannot be told from it by the score; it is `undecided` if the clusters of one of these differ. `baseline`
    is the best of those that form no clusters of clients and are as good.
    """

    score: Score
    as_good: tuple[Score, ...] = ()
    undecided: tuple[Score, ...] = ()
    baseline: Score | None = None


def best_numbers(family: Family, scores: Sequence[Score], known: bool = False) -> dict[str, Score]:
    """Return for each method the score with the best number of clusters, by the first run of each.

    `known` says that the number is known, so that one that a method finds has no precedence.
    """
    best: dict[str, Score] = {}
    for method in dict.fromkeys(score.method for score in scores):
        numbers = sorted((score for score in scores if score.method == method), key=lambda score: score.number or 0)
        first = [score_of(family, score.candidate, score.results[:1]) for score in numbers]
        taken = best_of(first, known) if family == "samples" else max(first, key=lambda score: score.value)
        best[method] = numbers[first.index(taken)]
    return best


def best_of(scores: Sequence[Score], known: bool = False) -> Score:
    """Return the score of samples to rely on.

    A number that a method finds, above one, comes before all that are given: the method has asked inside each cluster,
    too, and of all rows, while halves agree on two coarse pieces more surely than on many clusters that are as real. Of
    those left, the one with the finest partition that splits do not tell from the best: a finer one is taken where both
    are found again as well, up to the spread of splits.
    """
    found = [score for score in scores if score.number is None and max(score.clusters) > 1 and not known]
    return max(_as_good(found or scores), key=lambda score: (score.fineness, score.value))


def recommend(family: Family, scores: Sequence[Score], known: bool = False) -> Choice | None:
    """Choose the method to recommend, of one score per method; ``None`` if none can be.

    Only methods that send no data or copies, and find more than one cluster of samples, can be. Samples: `best_of`, or
    one whose clusters are the same and that moves fewer bytes.
    Clients: of those within one standard error of the best, by the differences between clients, those that form
    clusters, of these the most stable, of these the fewest clusters, of these the fewest bytes.
    """
    scores = [
        score
        for score in scores
        if score.role in ("", "baseline")
        and score.value != -math.inf
        and (family == "clients" or max(score.clusters) > 1)
    ]
    if not scores:
        return None
    if family == "samples":
        best = best_of(scores, known)
        same = [score for score in scores if score is best or _agreement(best, score) >= SAME]
        take = min(same, key=lambda score: (score.bytes, score.method))
        rest = tuple(score for score in scores if score is not take and (score in same or _near(best, score)))
        rest = tuple(sorted(rest, key=lambda score: -score.value))
        return Choice(take, rest, tuple(score for score in rest if _agreement(take, score) < ALIKE))
    near = _as_good(scores)
    forming = [score for score in near if not score.role] or near
    most = max(score.measures.get("stability", -1.0) for score in forming)
    # Stability within 0.05 of the best is as good; where none is known, accuracy comes first.
    stable = [score for score in forming if score.measures.get("stability", -1.0) >= most - 0.05]
    take = min(
        stable, key=lambda score: (-score.value if most < 0 else 0.0, mean(score.clusters), score.bytes, score.method)
    )
    rest = tuple(sorted((score for score in forming if score is not take), key=lambda score: -score.value))
    baselines = [score for score in near if score.role and forming is not near]
    return Choice(take, rest, baseline=max(baselines, key=lambda score: (score.value, score.method), default=None))


def _as_good(scores: Sequence[Score]) -> list[Score]:
    """Return the best score, and those that cannot be told from it by paired differences: by split, or by client."""
    best = max(scores, key=lambda score: score.value)
    return [score for score in scores if score is best or _near(best, score)]


def _near(best: Score, score: Score) -> bool:
    if "found_again" in best.measures:
        pairs = zip(best.results, score.results, strict=False)
        apart = [(first.again or 0.0) - (second.again or 0.0) for first, second in pairs]
        # One split errs by some 0.1 (chosen on 16 tables, not derived); 0.03 means nothing, however alike splits are.
        return mean(apart) <= (max(0.03, stdev(apart)) if len(apart) > 1 else 0.1)
    accuracies = zip(best.by_client, score.by_client, strict=True)
    apart = [first - second for first, second in accuracies if first is not None and second is not None]
    return len(apart) > 1 and mean(apart) <= stdev(apart) / math.sqrt(len(apart))


def _agreement(first: Score, second: Score) -> float:
    return mean(agreement(labels, compared) for labels in first.labels for compared in second.labels)
