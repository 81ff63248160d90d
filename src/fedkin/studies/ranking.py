"""Which candidate is recommended: by what halves of the samples find again, or by accuracy on clients' own tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import mean, stdev

import numpy as np

from fedkin.clustering.metrics import Labels
from fedkin.studies.cells import CellResult, agreement
from fedkin.studies.comparison import MEASURES, SCORE, TRUTH
from fedkin.studies.question import Candidate, Family, Selection

SAME, ALIKE = 0.9, 0.7
"""Agreement (ARI) from which on two partitions are called the same, and much the same."""
AS_STABLE = 0.05
"""Stability by which two methods are as stable as each other."""
SPREAD = 0.1
"""How far the agreement of halves in a single split may differ by chance; chosen on 16 tables, not derived."""
NOISE = 0.03
"""Difference of agreements that means nothing, however alike the splits are."""
CHANCE = 0.6
"""Agreement to which pieces of a single cloud are found again, too (normal and log-normal ones of 600 rows)."""


@dataclass(frozen=True)
class CandidateScore:
    """Scores of one candidate by seed, from its finished runs, of which there is one.

    `again`, `accuracy` and `stability` are as in `fedkin.studies.comparison.MEASURES`. `clients` are mean accuracies of
    each client's own model on its own tests; empty where samples are clustered. `labels`, int64 ``(m,)``, are by run.
    `number` is the effective number of clusters: that of clusters of one size with the same entropy, so that a few
    samples aside make no partition finer.
    """

    family: Family
    runs: tuple[CellResult, ...]
    labels: tuple[Labels, ...] = field(compare=False, repr=False)
    measures: dict[str, float]
    truth: dict[str, float]
    deviations: dict[str, float]
    clients: tuple[float | None, ...]
    number: float

    @property
    def clusters(self) -> tuple[int, ...]:
        """Number of clusters in each run."""
        return tuple(run.clusters or 0 for run in self.runs)

    @property
    def bytes(self) -> float:
        """Bytes sent and received, mean over runs."""
        return mean(run.bytes for run in self.runs)

    @property
    def seconds(self) -> float:
        """Computing time, mean over runs."""
        return mean(run.seconds for run in self.runs)

    @property
    def error(self) -> float | None:
        """Spread of the score over splits, or the standard error of mean accuracy over clients; ``None`` if unknown."""
        known = [each for each in self.clients if each is not None]
        return stdev(known) / math.sqrt(len(known)) if len(known) > 1 else self.deviations.get("found_again")

    @property
    def score(self) -> float:
        """What candidates are ranked by without truth; minus infinity if it is not known."""
        return self.measures.get(SCORE[self.family], -math.inf)

    @property
    def agreement_with_truth(self) -> float:
        """What ranks by truth; minus infinity if it is not known."""
        return self.truth.get(TRUTH[self.family][0], -math.inf)


def score_of(family: Family, runs: Sequence[CellResult], same_samples: bool = True) -> CandidateScore:
    """Score a candidate by its finished runs, in order of seed; stability needs the `same_samples` in all of them."""
    labels = tuple(np.array(run.labels, dtype=np.int64) for run in runs)
    by_run = {
        "found_again": [run.again for run in runs],
        "accuracy": [run.metrics.get("personal_accuracy") for run in runs],
        **{name: [run.metrics.get(name) for run in runs] for name in TRUTH[family]},
    }
    known = {name: [value for value in values if value is not None] for name, values in by_run.items()}
    known = {name: values for name, values in known.items() if len(values) == len(runs)}
    shown = (SCORE[family], *TRUTH[family])
    measures: dict[str, float] = {name: mean(known[name]) for name in MEASURES if name in known}
    if len(runs) > 1 and same_samples:
        measures["stability"] = mean(agreement(one, other, single=1.0) for one, other in combinations(labels, 2))
    clients: tuple[float | None, ...] = ()
    if family == "clients":
        accuracies = [run.metrics["client_accuracy"] for run in runs if "client_accuracy" in run.metrics]
        columns = ([one for one in each if one is not None] for each in zip(*accuracies, strict=True))
        clients = tuple(mean(each) if each else None for each in columns)
    return CandidateScore(
        family,
        tuple(runs),
        labels,
        measures,
        {name: mean(known[name]) for name in TRUTH[family] if name in known},
        {name: stdev(values) for name, values in known.items() if len(values) > 1 and name in shown},
        clients,
        mean(map(effective_number, labels)),
    )


def effective_number(labels: Labels) -> float:
    """Return the number of clusters of one size that have the same entropy; 0 without any."""
    _, counts = np.unique(labels[labels >= 0], return_counts=True)
    shares = counts / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum())) if len(counts) else 0.0


@dataclass(frozen=True)
class Choice:
    """Recommended candidate, with the facts that decided.

    `as_good` are others that cannot be told from it by the score, the best first; it is `undecided` if the clusters of
    one of these differ. `baseline` is the best of those that form no clusters of clients and are as good.
    """

    candidate: Candidate
    as_good: tuple[Candidate, ...] = ()
    undecided: tuple[Candidate, ...] = ()
    baseline: Candidate | None = None


Scores = Mapping[Candidate, CandidateScore]


def best_numbers(scores: Scores, by_truth: bool = False) -> dict[str, Candidate]:
    """Return for each method the candidate with the best number of clusters, by the first run of each."""
    best: dict[str, Candidate] = {}
    for method in dict.fromkeys(candidate.method for candidate in scores):
        numbers = sorted((each for each in scores if each.method == method), key=lambda each: each.number or 0)
        tried = {each: score_of(scores[each].family, scores[each].runs[:1]) for each in numbers}
        samples = not by_truth and next(iter(tried.values())).family == "samples"
        best[method] = finest(tried) if samples else max(tried, key=lambda each: rank_of(tried[each], by_truth))
    return best


def finest(scores: Scores) -> Candidate:
    """Return, of the candidates that splits do not tell from the best one, the one with the finest partition.

    A coarse partition is found again more easily than a fine one that is as real, so a finer one is taken where both
    are found again as well, up to the spread of splits; never beyond that. Numbers that a method finds come before
    those that it was given, for it has seen more than whether halves agree.
    """
    best = max(scores, key=lambda each: scores[each].score)
    near = [each for each in scores if each == best or _near(scores[best], scores[each])]
    return max(near, key=lambda each: (each.number is None, scores[each].number, scores[each].score))


def rank_of(score: CandidateScore, by_truth: bool) -> float:
    """Return what a candidate is ranked by."""
    return score.agreement_with_truth if by_truth else score.score


def recommendable(selection: Selection, scores: Scores) -> dict[Candidate, CandidateScore]:
    """Return the candidates that can be recommended: they send no data or copies, have a score, and form clusters."""
    return {
        each: score
        for each, score in scores.items()
        if selection.role(each.method) in ("", "baseline")
        and score.score != -math.inf
        and (selection.family == "clients" or max(score.clusters) > 1)
    }


def recommend(selection: Selection, scores: Scores, by_truth: bool = False) -> Choice | None:
    """Choose the candidate to recommend, of one per method; ``None`` if none can be.

    With truth it is the one that agrees best with it. Samples: the `finest`, or one whose clusters are the same and
    that moves fewer bytes. Clients: of those within one standard error of the best, by the differences between clients,
    those that form clusters, of these the most stable, of these the fewest clusters, of these the fewest bytes.
    """
    able = recommendable(selection, scores)
    if by_truth:
        able = {each: score for each, score in able.items() if score.agreement_with_truth != -math.inf}
    if not able:
        return None
    best = max(able, key=lambda each: rank_of(able[each], by_truth))
    if by_truth:
        return Choice(best)
    near = {each: score for each, score in able.items() if each == best or _near(able[best], score)}
    if selection.family == "clients":
        return _of_clients(selection, able[best], near)
    found = finest(able)
    same = {each: score for each, score in near.items() if each == found or _agreement(able[found], score) >= SAME}
    take = min(same, key=lambda each: (same[each].bytes, each.method))
    others = sorted((each for each in near if each != take), key=lambda each: -near[each].score)
    unlike = tuple(each for each in others if each not in same and _agreement(able[take], able[each]) < ALIKE)
    return Choice(take, tuple(others), unlike)


def _of_clients(selection: Selection, best: CandidateScore, near: dict[Candidate, CandidateScore]) -> Choice:
    forming = {each: score for each, score in near.items() if not selection.role(each.method)} or near
    stability = {each: score.measures.get("stability", -1.0) for each, score in forming.items()}
    most = max(stability.values())
    stable = {each: score for each, score in forming.items() if stability[each] >= most - AS_STABLE}
    unsteady = {each: -score.score if most < 0 else 0.0 for each, score in stable.items()}
    take = min(stable, key=lambda each: (unsteady[each], mean(stable[each].clusters), stable[each].bytes, each.method))
    baselines = near.keys() - forming.keys()
    others = sorted((each for each in forming if each != take), key=lambda each: -near[each].score)
    return Choice(
        take, tuple(others), baseline=max(baselines, key=lambda each: (near[each].score, each.method), default=None)
    )


def _near(best: CandidateScore, other: CandidateScore) -> bool:
    """Return whether two candidates cannot be told apart by the paired differences of their scores.

    Of samples these are by split, of clients by client.
    """
    if best.family == "samples":
        apart = [(one.again or 0.0) - (two.again or 0.0) for one, two in zip(best.runs, other.runs, strict=False)]
        return mean(apart) <= (max(NOISE, stdev(apart)) if len(apart) > 1 else SPREAD)
    pairs = zip(best.clients, other.clients, strict=True)
    apart = [one - two for one, two in pairs if one is not None and two is not None]
    return len(apart) > 1 and mean(apart) <= stdev(apart) / math.sqrt(len(apart))


def _agreement(one: CandidateScore, other: CandidateScore) -> float:
    return mean(agreement(a, b) for a in one.labels for b in other.labels)
