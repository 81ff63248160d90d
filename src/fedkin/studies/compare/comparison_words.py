"""Sentences of a comparison: the reason of the recommendation, remarks on other methods, and next commands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from statistics import mean

from fedkin.experiment.config import apply_setting
from fedkin.experiment.measure_titles import join_words
from fedkin.report.numbers import format_bytes, pluralize
from fedkin.studies.compare.better_than_chance import MAX_ROWS, TIMES, ChanceTest
from fedkin.studies.compare.candidates import Candidate, Family, Role
from fedkin.studies.compare.judging import SCORE, TRUTH, CandidateScore
from fedkin.studies.compare.question import Question
from fedkin.studies.compare.ranking import FOUND, Choice
from fedkin.studies.time_budget import duration

ROLES: Mapping[Role, str] = {
    "": "",
    "centralised": "a centralised baseline: moves the data",
    "synthetic": "not recommended: synthetic copies of samples leave",
    "baseline": "forms no clusters",
}

_SAME = 0.9
"""Stability from which on the clusters of two seeds are called the same."""


def reason(family: Family, choice: Choice, verdicts: Mapping[Candidate, CandidateScore], by_truth: bool) -> str:
    """Explain why a candidate is recommended, as the rest of a sentence that begins with "it"."""
    verdict = verdicts[choice.candidate]
    parts = [_best(family, choice, verdict, by_truth)]
    if choice.baseline is not None:
        level, name = verdicts[choice.baseline].measures[SCORE[family]], choice.baseline.method
        parts.append(f"is not significantly better than {name}, which forms no clusters ({level:.3f})")
    if verdict.found and not by_truth:
        parts.append("finds the number of clusters itself")
    stable = verdict.measures.get("stability")
    if stable is not None:
        parts.append(_stable(stable, choice.stable < choice.rivals))
    is_known = choice.stable > 0 and stable is not None
    cheapest = ", the least of these," if is_known and family == "samples" else ""
    if is_known and family == "clients":
        parts.append(f"needs no more clusters than these ({mean(verdict.clusters):g})")
    parts.append(f"moves {format_bytes(verdict.bytes)}{cheapest} in {duration(verdict.seconds)}")
    return join_words(parts)


def lead(recommended: str | None, why: str, confident: bool) -> str:
    """Write the recommendation as a sentence."""
    if recommended is None:
        return f"Nothing recommended: {why}."
    return f"Recommended{'' if confident else ', but without confidence'}: {recommended}. It {why}."


def one_column(name: str) -> str:
    """Write the warning that a single column explains the clusters."""
    return (
        f"One column explains the clusters: they can be predicted from '{name}' alone and not from all other columns "
        f"together. If it is not what you look for, leave it out (--set 'data.drop=[\"{name}\"]') and compare again."
    )


def by_chance(test: ChanceTest) -> str:
    """Write the warning that no clusters are better than chance."""
    return (
        f"No method's clusters are better than chance: the best cohesion in {test.space} of at most {MAX_ROWS} "
        f"samples, which is not the ranking's, is {test.reached:.3f}, and {test.as_good} of {TIMES} simulated tables "
        f"without clusters reach it (p = {test.p:.2f}; their mean is {test.by_chance:.3f}). The data may "
        "have no clusters."
    )


def by_guess(accuracy: float, guess: float) -> str:
    """Write the warning that models are no better than a guess."""
    return (
        f"The clusters' models are no better than a guess: an accuracy of {accuracy:.3f}, where always answering a "
        f"client's most frequent class has {guess:.3f}. They need more rounds, or another model."
    )


def not_all_ran(runs: int, seeds: int) -> str:
    """Write the warning that runs of the recommended method are missing."""
    return f"Only {runs} of {pluralize(seeds, 'run')} finished; the same with a larger budget resumes."


def seeds_differ(stability: float) -> str:
    """Write the warning that the clusters depend on the seed."""
    return f"The clusters depend on the seed: those of two runs agree to ARI {stability:.2f} only, where 1 is the same."


def alone(finished: Sequence[str]) -> str:
    """Write the warning that there was nothing to choose among: a single method, or baselines without clusters."""
    what = f"Only {join_words(finished)} finished"
    what += ", so it was compared with nothing" if len(finished) == 1 else ", which form no clusters"
    return f"{what}; the same with a larger budget resumes."


def behind_truth(gap: float) -> str:
    """Write the sentence on how much less than the best the recommended method agrees with the truth."""
    if gap == 0:
        return "By the truth, too, no other that could be recommended is better (ARI)."
    return f"By the truth it is {gap:.3f} (ARI) behind the best that could be recommended."


ORDER = f"In order of cohesion, which counts {FOUND:g} times where the method found the number of clusters."
"""Sentence on the order of methods for samples, which the measure alone does not show."""


def about_as_good(names: Sequence[str]) -> str:
    """Write the sentence on methods whose scores do not differ significantly."""
    return (
        f"About as good by the score: {'; '.join(names) if any(',' in name for name in names) else join_words(names)}."
    )


def _stable(value: float, more_than_others: bool) -> str:
    if value < _SAME:
        as_others = ", as much as any of these," if more_than_others else ""
        return f"agrees with itself over seeds{as_others} to ARI {value:.2f}"
    as_others = " as stably as any of these" if more_than_others else ""
    return f"finds the same clusters over seeds{as_others} (ARI {value:.2f})"


def _best(family: Family, choice: Choice, verdict: CandidateScore, by_truth: bool) -> str:
    if by_truth:
        name = TRUTH[family][0]
        return f"agrees best with the truth ({name.upper()} {verdict.truth[name]:.3f})"
    value = verdict.measures[SCORE[family]]
    what = f"reaches an accuracy of {value:.3f} on clients' own test samples"
    if family == "samples":
        what = f"keeps neighbouring samples in one cluster (cohesion {value:.3f})"
    others = f", as good as {pluralize(choice.rivals, 'other')}" if choice.rivals else ""
    behind = f", {choice.ahead:.3f} more than {'the rest' if choice.rivals else 'any other'}" if choice.ahead else ""
    return what + others + behind


def remark(role: Role, finished: int, steps: int, refusal: str | None, began: bool) -> str:
    """Write the remark on a candidate: its role, and why no run finished."""
    notes = [ROLES[role]]
    if refusal is not None:
        notes.append(f"cannot be applied: {refusal.rstrip('.')}")
    elif not finished:
        notes.append(
            f"not finished in the budget, stopped after {pluralize(steps, 'step')}"
            if began
            else "not started in the budget"
        )
    return "; ".join(note for note in notes if note)


def use(question: Question, chosen: Candidate) -> tuple[str, ...]:
    """Return commands that run the recommended method alone, and apply it to new samples or an unseen client."""
    settings = [
        f"--set {shlex.quote(f'{section}.{key}={_plain(value)}')}"
        for section, values in question.tables.items()
        for key, value in values.items()
        if section != "evaluation" and (section, key) not in (("data", "source"), ("scenario", "name"))
    ]
    given = [
        f"--set {shlex.quote(f'method.{key}={_plain(value)}')}"
        for key, value in chosen.settings(question.settings).items()
        if key != "name"
    ]
    apply = "predict" if question.family == "samples" else "assign"
    run = f"runs/{question.name}-{chosen.folder}"
    where = f"--data {shlex.quote(question.data)} --scenario {question.scenario} --seed {question.seed}"
    parts = [f"fedkin run {chosen.method}", where, *settings, *given, f"--out {shlex.quote(run)}"]
    return (" ".join(parts), f"fedkin {apply} {shlex.quote(run)} NEW.csv")


def _plain(value: object) -> str:
    """Format a value for ``--set``; text is quoted only if it would be read as another type."""
    if not isinstance(value, str):
        return "none" if value is None else json.dumps(value)
    read: dict[str, object] = {}
    apply_setting(read, f"value={value}")
    return value if read["value"] == value else json.dumps(value, ensure_ascii=False)
