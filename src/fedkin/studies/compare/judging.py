"""Scores of a candidate's finished runs: measures without truth, and agreement with the truth if there is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import mean, stdev

import numpy as np
from numpy.typing import NDArray

from fedkin.clustering.metrics import Labels
from fedkin.studies.compare import criteria
from fedkin.studies.compare.better_than_chance import ChanceTest, chance_test
from fedkin.studies.compare.candidate_runs import Done
from fedkin.studies.compare.candidates import Family
from fedkin.studies.compare.column_checks import explaining_column
from fedkin.studies.compare.prepared_samples import PreparedSamples, numbers_of
from fedkin.studies.compare.spaces import Space, space_of

TRUTH = {"samples": ("ari", "nmi", "pooled_accuracy"), "clients": ("ari", "ami", "purity")}
"""Agreement with the truth, as the evaluation of runs names it; the first is what `by truth` means."""
MEASURES = ("cohesion", "accuracy", "stability", "silhouette", "consensus")
"""What needs no truth, in the order in which it is shown."""
SCORE: Mapping[Family, str] = {"samples": "cohesion", "clients": "accuracy"}
"""The measure that candidates are ranked by."""
_MAX_COLUMNS = 300
"""Columns of a table up to which they are looked at one by one."""


@dataclass(frozen=True)
class CandidateScore:
    """Scores of one candidate, means over runs but for clusters and labels.

    `measures` are for samples ``cohesion`` and ``silhouette``, for clients ``accuracy``, for both ``stability``, absent
    with a single run. `truth` is agreement with it; empty without one. `clients` are accuracies of each client's own
    model on its own tests; empty where samples are clustered. `clusters` are their numbers in each run. `labels`, int64
    ``(m,)`` by run, are the clusters, of samples those that are looked at, -1 for none. `spread` is the standard error
    of the cohesion, over halves of the samples that are looked at. `found` says whether the method found the number of
    clusters of samples. `deviations` are standard deviations over runs, of the score and of agreement with the truth;
    empty with a single run.
    """

    measures: dict[str, float]
    truth: dict[str, float]
    clients: tuple[float | None, ...]
    clusters: tuple[int, ...]
    bytes: float
    seconds: float
    labels: tuple[Labels, ...] = field(compare=False, repr=False)
    spread: float | None = None
    found: bool = False
    deviations: dict[str, float] = field(default_factory=dict)


class Judge:
    """Scorer of the candidates of one question, on prepared samples, of which the seed draws those that are scored."""

    def __init__(self, family: Family, samples: PreparedSamples, seed: int) -> None:
        self.family, self.samples, self.seed = family, samples, seed
        self.sizes = [len(client) for client in samples.population.clients]

    @cached_property
    def space(self) -> Space:
        """Subset of the samples on which clusters are scored; made when first needed."""
        return space_of(self.samples.population, self.seed)

    def verdict(self, runs: Sequence[Done], found: bool = False) -> CandidateScore:
        """Score the finished runs of a candidate, of which there must be one; `found` says if it found its number."""
        seen = [self._looked_at(run) for run in runs]
        measures, spread = {"accuracy": _mean(runs, "personal_accuracy")}, None
        by_run = {"accuracy": _each(runs, "personal_accuracy")} if self.family == "clients" else {}
        if self.family == "samples":
            by_run["cohesion"] = [criteria.cohesion(self.space, labels) for labels in seen]
            cohesion = mean(by_run["cohesion"])
            silhouette = mean(criteria.silhouette(self.space.points, labels) for labels in seen)
            measures, spread = {"cohesion": cohesion, "silhouette": silhouette}, criteria.spread(self.space, seen)
        measures["stability"] = criteria.stability([run.labels for run in runs])
        by_run |= {name: _each(runs, name) for name in TRUTH[self.family]}
        return CandidateScore(
            {name: value for name, value in measures.items() if value is not None},
            {name: value for name in TRUTH[self.family] if (value := _mean(runs, name)) is not None},
            _by_client(runs) if self.family == "clients" else (),
            tuple(run.clusters for run in runs),
            mean(run.bytes for run in runs),
            mean(run.seconds for run in runs),
            tuple(seen),
            spread,
            found and self.family == "samples",
            {name: stdev(values) for name, values in by_run.items() if len(values) > 1},
        )

    def explaining_column(self, taken: CandidateScore) -> str | None:
        """Return the column that alone explains a candidate's first clusters; see `column_checks`."""
        return explaining_column(self._numbers, self.samples.blocks, taken.labels[0]) if self.has_columns else None

    def chance(self, verdicts: Iterable[CandidateScore]) -> ChanceTest:
        """Test whether the best clusters of samples are better than chance.

        Tables are tested column by column; images, and tables of many columns, by their principal components.
        """
        ends = np.cumsum(self.sizes)
        looked_at = np.bincount(np.searchsorted(ends, self.space.rows, side="right"), minlength=len(ends)).tolist()
        x, blocks = self.space.points, [(str(i), i, i + 1) for i in range(self.space.points.shape[1])]
        named = "principal components"
        if self.has_columns:
            x, blocks, named = self._numbers, list(self.samples.blocks), "single columns"
        return chance_test(x, blocks, looked_at, [verdict.labels for verdict in verdicts], named)

    def guessed_accuracy(self) -> float | None:
        """Return the mean over clients of the accuracy of always answering the most frequent class of their training.

        ``None`` where samples are clustered.
        """
        if self.family == "samples":
            return None
        shares = [
            float((tests == client.y.mode().values).double().mean())
            for client, (_, tests) in zip(self.samples.population.clients, self.samples.population.tests, strict=True)
            if client.y is not None and len(client.y) and len(tests)
        ]
        return mean(shares) if shares else None

    @property
    def has_columns(self) -> bool:
        """Whether samples are clustered that are rows of several, but not too many, columns."""
        return self.family == "samples" and 2 <= len(self.samples.blocks) <= _MAX_COLUMNS

    @cached_property
    def _numbers(self) -> NDArray[np.float64]:
        return numbers_of(self.samples, self.space.rows)

    def consensus(self, runs: Sequence[Done], others: Mapping[str, Sequence[Done]]) -> float | None:
        """Return the mean ARI with other methods, given by name; for samples on the scored subset."""
        return criteria.consensus(
            [self._looked_at(run) for run in runs],
            {name: [self._looked_at(run) for run in theirs] for name, theirs in others.items()},
        )

    def _looked_at(self, run: Done) -> Labels:
        return run.labels[self.space.rows] if self.family == "samples" else run.labels


def _by_client(runs: Sequence[Done]) -> tuple[float | None, ...]:
    """Return the mean accuracy of each client's own model over runs; ``None`` where no run has it."""
    known = [run.metrics["client_accuracy"] for run in runs if "client_accuracy" in run.metrics]
    columns = ([score for score in each if score is not None] for each in zip(*known, strict=True))
    return tuple(float(np.mean(own)) if own else None for own in columns)


def _mean(runs: Sequence[Done], name: str) -> float | None:
    """Return the mean of a metric over runs; ``None`` unless every run has it."""
    values = _each(runs, name)
    return mean(values) if values else None


def _each(runs: Sequence[Done], name: str) -> list[float]:
    """Return a metric of each run; none unless every run has it."""
    values = [run.metrics.get(name) for run in runs]
    return [] if None in values else [value for value in values if value is not None]
