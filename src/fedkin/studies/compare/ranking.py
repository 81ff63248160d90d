"""Choice of the recommended candidate: one rule for samples, and one for clients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from fedkin.studies.compare.candidates import Candidate, Family, Selection
from fedkin.studies.compare.criteria import consensus
from fedkin.studies.compare.judging import SCORE, TRUTH, CandidateScore

NEAR, ALIKE = 0.02, 0.7
"""Two clusterings of samples are equally good if their cohesion differs by no more than the first and they agree
(ARI) by no less than the second. Where they disagree there is more at stake than the stabler method is worth."""
AS_STABLE = 0.05
"""Stability by which two methods are as stable as each other."""
FOUND = 1.5
"""Factor of the cohesion of clusters whose number their method found: it looked at more than nearest neighbours."""

Verdicts = Mapping[Candidate, CandidateScore]
Score = Callable[[Family, CandidateScore], float]
"""What candidates of a family are ranked by; minus infinity where it is not known."""


def score_of(family: Family, verdict: CandidateScore) -> float:
    """Return the score that ranks candidates without truth; minus infinity if it is not known."""
    return _measured(family, verdict) * _factor(verdict)


def _factor(verdict: CandidateScore) -> float:
    return FOUND if verdict.found else 1.0


def _measured(family: Family, verdict: CandidateScore) -> float:
    """Return the measure behind the score, however the number of clusters came about."""
    return verdict.measures.get(SCORE[family], -math.inf)


def truth_of(family: Family, verdict: CandidateScore) -> float:
    """Return the agreement that ranks candidates with truth; minus infinity if it is not known."""
    return verdict.truth.get(TRUTH[family][0], -math.inf)


def best_numbers(family: Family, verdicts: Verdicts, score: Score = score_of) -> dict[str, Candidate]:
    """Return for each method the candidate whose number of clusters scores best; the smaller number on ties."""
    chosen: dict[str, Candidate] = {}
    for candidate in sorted(verdicts, key=lambda each: (each.method, each.number or 0)):
        before = chosen.get(candidate.method)
        if before is None or score(family, verdicts[candidate]) > score(family, verdicts[before]):
            chosen[candidate.method] = candidate
    return chosen


@dataclass(frozen=True)
class Choice:
    """Recommended candidate, with the facts that decided.

    `rivals` is the number of others that are as good by the score, and `stable` the number of these that are as stable,
    too. `ahead` is the lead of the candidate's measure over that of all others but the rivals, also of those that
    cannot be recommended; ``None`` if there are none, or no lead. `undecided` are others (for samples) whose score
    differs from its own by less than both standard errors, the best first. `baseline` is the best of those that form
    no clusters and are as good as far as is known.
    """

    candidate: Candidate
    rivals: int = 0
    stable: int = 0
    ahead: float | None = None
    undecided: tuple[Candidate, ...] = ()
    baseline: Candidate | None = None


def chosen_by_truth(selection: Selection, verdicts: Verdicts) -> Choice | None:
    """Choose the candidate that agrees best with the truth; ``None`` if none can be recommended."""
    known = known_truth(selection, verdicts)
    return Choice(max(known, key=lambda each: known[each])) if known else None


def known_truth(selection: Selection, verdicts: Verdicts) -> dict[Candidate, float]:
    """Return the agreement with the truth of candidates that can be recommended, where there is a truth."""
    name = TRUTH[selection.family][0]
    return {each: verdict.truth[name] for each, verdict in able(selection, verdicts).items() if name in verdict.truth}


def chosen(selection: Selection, verdicts: Verdicts) -> Choice | None:
    """Choose the candidate to recommend without the truth; ``None`` if none can be recommended.

    Samples: the best is the most cohesive, where cohesion counts `FOUND` times if the method found the number of
    clusters. Of those whose cohesion is within `NEAR` of the best's and whose clusters are `ALIKE`, those whose
    stability is within `AS_STABLE` of the most stable, and of these the one that moves the fewest bytes. Clients: the
    same with accuracy on clients' own tests, within one standard error of the difference between clients, and fewer
    clusters before fewer bytes; one that forms no clusters is chosen only if none that forms some is as good. Where
    stability is unknown because every candidate has run only once, the best score decides.

    `selection` says which methods may be recommended, and `verdicts` has one candidate per method.
    """
    family, able_ones = selection.family, able(selection, verdicts)
    if not able_ones:
        return None
    score = {each: score_of(family, verdict) for each, verdict in able_ones.items()}
    best = able_ones[max(score, key=lambda each: score[each])]
    near = _near_samples if family == "samples" else _near_clients
    equals = {each: verdict for each, verdict in able_ones.items() if near(best, verdict)}
    close = {each: verdict for each, verdict in equals.items() if not selection.role(each.method)} or equals
    most = max(_stability(verdict) for verdict in close.values())
    stable = {each: verdict for each, verdict in close.items() if _stability(verdict) >= most - AS_STABLE}
    clusters = {each: mean(verdict.clusters) if family == "clients" else 0 for each, verdict in stable.items()}
    unsteady = {each: -score[each] if most < 0 else 0.0 for each in stable}
    take = min(stable, key=lambda each: (unsteady[each], clusters[each], stable[each].bytes, each.method))
    return Choice(
        take,
        rivals=len(close) - 1,
        stable=len(stable) - 1,
        ahead=_lead(family, take, [each for each in verdicts if each not in close], verdicts),
        undecided=_undecided(take, able_ones),
        baseline=max(equals.keys() - close.keys(), key=lambda each: (score[each], each.method), default=None),
    )


def _lead(family: Family, take: Candidate, others: Sequence[Candidate], verdicts: Verdicts) -> float | None:
    """Return by how much the chosen one's measure is above those of all `others`; ``None`` if it is not."""
    known = [_measured(family, one) for each in others if _has_clusters(family, one := verdicts[each])]
    ahead = _measured(family, verdicts[take]) - max(known, default=math.inf)
    return ahead if ahead > 0 else None


def _undecided(take: Candidate, able_ones: Verdicts) -> tuple[Candidate, ...]:
    """Return the candidates whose score does not differ from the chosen one's by more than standard errors."""
    score = {each: score_of("samples", verdict) for each, verdict in able_ones.items()}
    error = {each: (verdict.spread or 0.0) * _factor(verdict) for each, verdict in able_ones.items()}
    close = [each for each in score if abs(score[each] - score[take]) < error[take] + error[each] and each != take]
    return tuple(sorted(close, key=lambda each: -score[each]))


def able(selection: Selection, verdicts: Verdicts) -> dict[Candidate, CandidateScore]:
    """Return the candidates that can be recommended: they send no data or copies, have a score, and form clusters."""
    family = selection.family
    sent = {each: verdict for each, verdict in verdicts.items() if selection.role(each.method) in ("", "baseline")}
    scored = {each: verdict for each, verdict in sent.items() if score_of(family, verdict) != -math.inf}
    return {each: verdict for each, verdict in scored.items() if _has_clusters(family, verdict)}


def _has_clusters(family: Family, verdict: CandidateScore) -> bool:
    """Return whether clusters of samples are more than one; clients may all be in one."""
    return family == "clients" or max(verdict.clusters) > 1


def _near_samples(best: CandidateScore, other: CandidateScore) -> bool:
    """Return whether cohesion is within `NEAR` of the best, and clusters are `ALIKE`."""
    if best is other:
        return True
    close = _measured("samples", best) - _measured("samples", other) <= NEAR
    return close and (consensus(best.labels, {"other": other.labels}) or 0.0) >= ALIKE


def _near_clients(best: CandidateScore, other: CandidateScore) -> bool:
    """Return whether the mean difference of accuracy over clients is within its standard error."""
    pairs = zip(best.clients, other.clients, strict=True)
    apart = [one - two for one, two in pairs if one is not None and two is not None]
    if len(apart) < 2:
        return best is other
    return mean(apart) <= stdev(apart) / math.sqrt(len(apart))


def _stability(verdict: CandidateScore) -> float:
    """Return the stability, or -1 for a single run."""
    return verdict.measures.get("stability", -1.0)
