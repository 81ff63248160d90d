"""Scores of methods, and which one is recommended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from statistics import mean, stdev
from typing import Any

import numpy as np

from fedkin.clustering.metrics import Labels
from fedkin.studies.cells import CellResult, agreement
from fedkin.studies.question import Candidate

SAME, ALIKE = 0.9, 0.7  # agreement (ARI) from which on two partitions are called the same, and much the same
CHANCE = 0.6  # to which pieces of a single cloud are found again, too (normal and log-normal ones of 600 rows)
TRUTH = ("ari", "nmi", "pooled_accuracy")
"""Agreement with the truth, as the evaluation of runs names it."""


@dataclass(frozen=True)
class Score(Candidate):
    """Row of a comparison: a candidate, and what its finished runs, in order of seed, came to.

    `number` is the number of clusters it was given. `measures` are means over runs: ``found_again``, ``stability``, and
    agreement with the truth, if there is one; `deviations` their standard deviations. `remark` says why no run has
    finished.
    """

    results: tuple[CellResult, ...] = field(default=(), repr=False)
    remark: str = ""

    @property
    def candidate(self) -> Candidate:
        """The method with the number of clusters it was given."""
        return Candidate(self.method, self.number)

    @cached_property
    def by_run(self) -> dict[str, list[float]]:
        """Numbers of each run: ``found_again``, and those of its agreement with the truth that all runs have."""
        by_run: dict[str, list[Any]] = {"found_again": [result.again for result in self.results]}
        by_run |= {name: [result.metrics.get(name) for result in self.results] for name in TRUTH}
        return {name: values for name, values in by_run.items() if values and None not in values}

    @cached_property
    def measures(self) -> dict[str, float]:
        """Means over runs; of several runs also their stability, the mean agreement of two."""
        measures = {name: mean(values) for name, values in self.by_run.items()}
        if len(self.results) > 1:
            pairs = combinations(self.labels, 2)
            measures["stability"] = mean(agreement(first, second, single=1.0) for first, second in pairs)
        return measures

    @property
    def deviations(self) -> dict[str, float]:
        """Standard deviations over runs, empty with a single one."""
        return {name: stdev(values) for name, values in self.by_run.items() if len(values) > 1}

    @property
    def clusters(self) -> tuple[int, ...]:
        """Number of clusters in each run."""
        return tuple(result.clusters for result in self.results)

    @property
    def bytes(self) -> float:
        """Bytes sent and received, mean over runs."""
        return mean(result.bytes for result in self.results)

    @property
    def seconds(self) -> float:
        """Computing time, mean over runs."""
        return mean(result.seconds for result in self.results)

    @property
    def labels(self) -> list[Labels]:
        """Clusters of samples, int64 ``(m,)``, by run."""
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
        """What methods are ranked by; minus infinity without a run."""
        return self.measures.get("found_again", -math.inf)


@dataclass(frozen=True)
class Choice:
    """Recommended method, with the facts that decided.

    `as_good` cannot be told from it by the score; it is `undecided` if the clusters of one of these differ.
    """

    score: Score
    as_good: tuple[Score, ...] = ()
    undecided: tuple[Score, ...] = ()


def best_numbers(scores: Sequence[Score], is_known: bool = False) -> dict[str, Score]:
    """Return for each method the score with the best number of clusters, by the first run of each.

    `is_known` says that the number is known, so that one that a method finds has no precedence.
    """
    best: dict[str, Score] = {}
    for method in dict.fromkeys(score.method for score in scores):
        numbers = sorted((score for score in scores if score.method == method), key=lambda score: score.number or 0)
        first = [replace(score, results=score.results[:1]) for score in numbers]
        best[method] = numbers[first.index(best_of(first, is_known))]
    return best


def best_of(scores: Sequence[Score], is_known: bool = False) -> Score:
    """Return the score to rely on.

    A number that a method finds, above one, comes before all that are given: the method has asked inside each cluster,
    and halves agree on two coarse pieces more surely than on many clusters that are as real. Of
    those left, the one with the finest partition that splits do not tell from the best: a finer one is taken where both
    are found again as well, up to the spread of splits.
    """
    finders = [score for score in scores if score.number is None and max(score.clusters) > 1 and not is_known]
    candidates = finders or scores
    best = max(candidates, key=lambda score: score.value)
    near = [score for score in candidates if score is best or _near(best, score)]
    return max(near, key=lambda score: (score.fineness, score.value))


def recommend(scores: Sequence[Score], is_known: bool = False) -> Choice | None:
    """Choose the method to recommend, of one score per method; ``None`` if none can be.

    Only methods that send no data or copies, and find more than one cluster, can be: `best_of` these, or one whose
    clusters are the same and that moves fewer bytes.
    """
    scores = [score for score in scores if not score.role and max(score.clusters) > 1]
    if not scores:
        return None
    best = best_of(scores, is_known)
    same = [score for score in scores if score is best or _agreement(best, score) >= SAME]
    take = min(same, key=lambda score: (score.bytes, score.method))
    rest = [score for score in scores if score is not take and (score in same or _near(best, score))]
    rest.sort(key=lambda score: -score.value)
    return Choice(take, tuple(rest), tuple(score for score in rest if _agreement(take, score) < ALIKE))


def _near(best: Score, score: Score) -> bool:
    """Return whether a score cannot be told from the best by paired differences of splits."""
    pairs = zip(best.results, score.results, strict=False)
    apart = [first.again - second.again for first, second in pairs]
    # One split errs by some 0.1 (chosen on 16 tables, not derived); 0.03 means nothing, however alike splits are.
    return mean(apart) <= (max(0.03, stdev(apart)) if len(apart) > 1 else 0.1)


def _agreement(first: Score, second: Score) -> float:
    return mean(agreement(labels, compared) for labels in first.labels for compared in second.labels)
