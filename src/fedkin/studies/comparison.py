"""Result of a comparison: what runs came to, scores of methods, which one is recommended with what doubts, the page."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal

import numpy as np
import pandas as pd

from fedkin.clustering.metrics import Labels, adjusted_rand
from fedkin.core import Method
from fedkin.core.method import options_of
from fedkin.experiment import registry
from fedkin.experiment.config import Config, config_of
from fedkin.report.figures import PagePart, PageView, ResultTable, TableCell
from fedkin.report.numbers import format_bytes, join_words
from fedkin.studies.pages import duration, page_text

SAME, ALIKE = 0.9, 0.7  # agreement (ARI) from which on two partitions are called the same, and much the same
CHANCE = 0.6  # to which pieces of a single cloud are found again, too (normal and log-normal ones of 600 rows)
TRUTH = ("ari", "nmi", "pooled_accuracy")
"""Agreement with the truth, as the evaluation of runs names it."""


Role = Literal["", "centralised", "synthetic"]
"""Methods that move samples to the server, or send synthetic ones; the others have none."""


def method_named(name: str) -> type[Method[Any]]:
    """Return the class of a method; raises FedkinError if there is none."""
    return registry.resolve("method", name)


@dataclass(frozen=True, order=True)
class Candidate:
    """Candidate of a comparison: a method, and the number of clusters it is given, if any."""

    method: str
    number: int | None = None

    @property
    def name(self) -> str:
        """Name of the method, with the number of clusters it is given."""
        return self.method if self.number is None else f"{self.method}, {self.number} clusters"

    @property
    def role(self) -> Role:
        """Role of the method; only those of no particular role are recommended."""
        traits = method_named(self.method).traits
        return "centralised" if traits.moves_data else "synthetic" if traits.copies_data else ""

    @property
    def is_cheap(self) -> bool:
        """Whether the method is a quick one."""
        return method_named(self.method).traits.cost == "cheap"

    def settings(self, shared: Mapping[str, Any]) -> dict[str, Any]:
        """Return section ``[method]`` of its runs, with those of the `shared` settings that the method has."""
        method = method_named(self.method)
        defaults = {option.name: option.default for option in options_of(method)}
        chosen = {"name": self.method, **{key: value for key, value in shared.items() if key in defaults}}
        if self.number is not None:
            return chosen | {"n_clusters": self.number}
        if method.traits.finds_k and method.traits.takes_k:
            return chosen | {"n_clusters": "auto" if defaults["n_clusters"] == "auto" else None}
        return chosen


@dataclass(frozen=True)
class Question:
    """Everything that the runs of a comparison share.

    `methods` take part, the cheapest first. `tables` are the experiment of all runs,
    without its method and seed, and `settings` hyper-parameters for all methods that have them. The seed is that of the
    first run. `clusters` is their number, if it is known.
    """

    methods: tuple[str, ...]
    tables: dict[str, Any]
    settings: dict[str, Any]
    seed: int = 0
    clusters: int | None = None

    @property
    def data(self) -> str:
        """Data set as the user gave it."""
        return str(self.tables["data"].get("source", "digits"))

    @property
    def scenario(self) -> str:
        """Name of the scenario."""
        return str(self.tables["simulation"]["scenario"])

    @property
    def name(self) -> str:
        """Name for the folder, such as ``digits-own-class``."""
        data = re.sub(r"[^A-Za-z0-9._]+", "-", Path(self.data).name).strip("-.") or "data"
        return f"{data}-{self.scenario}" + (f"-seed{self.seed}" if self.seed else "")

    def takers(self, cheap: bool) -> list[str]:
        """Return the methods that can be given a number of clusters and are cheap, or costly."""
        takers = [name for name in self.methods if method_named(name).traits.takes_k]
        return [name for name in takers if Candidate(name).is_cheap == cheap]

    def candidates(self) -> list[Candidate]:
        """Return the candidates that run first: all if the number of clusters is known, else methods that find it."""
        candidates = []
        for name in self.methods:
            traits = method_named(name).traits
            if not traits.takes_k or (self.clusters is None and traits.finds_k):
                candidates.append(Candidate(name))
            elif self.clusters is not None:
                candidates.append(Candidate(name, self.clusters))
        return candidates

    def config(self, candidate: Candidate, seed: int) -> Config:
        """Build the configuration of one run; raises FedkinError if a key or value is not allowed."""
        data = {"seed": self.seed, **self.tables["data"]}
        return config_of({**self.tables, "data": data, "method": candidate.settings(self.settings), "seed": seed})


@dataclass(frozen=True)
class CellResult:
    """Result of one cell.

    `metrics` are those of the last record: agreement with the truth. `again` is the agreement (ARI) of what each half
    of the samples finds with what the other half predicts for it. `labels` are the clusters of at most 2,000
    samples, which are the same ones in all cells of a federation; -1 for none. `bytes` were sent and received in
    `steps`; `seconds` is the computing time of the method, without evaluation and halves.
    """

    metrics: dict[str, Any] = field(default_factory=dict)
    clusters: int = 0
    again: float = 0.0
    labels: list[int] = field(default_factory=list)
    bytes: int = 0
    seconds: float = 0.0
    steps: int = 0


def agreement(first: Labels, second: Labels, single: float = 0.0) -> float:
    """Return the ARI of two partitions over what has a cluster in both; 0 if either is of a single cluster.

    It is `single` if both are.
    """
    both = (first >= 0) & (second >= 0)
    first, second = first[both], second[both]
    numbers = {len(np.unique(first)), len(np.unique(second))}
    if min(numbers) < 2:
        return single if numbers == {1} else 0.0
    return adjusted_rand(first, second)


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

    A number that a method finds, above one, comes before all that are given: the method has weighed all numbers, by all
    rows, and halves agree on two coarse pieces more surely than on many clusters that are as real. Of
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


# The result.


JSON, PAGE, WINNER = "comparison.json", "report.html", "recommended.toml"
IN_MEMORY = "clients in memory"
"""What the data of a question are called that no file holds."""
TITLES = {
    "found_again": "Found again", "stability": "Stability", "ari": "ARI", "nmi": "NMI", "pooled_accuracy": "ACC",
}  # fmt: skip
MEANINGS = {
    "found_again": "Each client's samples are split in two at random; what the method predicts for one half from the "
    "other is compared (ARI) with what it finds there itself; 0 is chance, 1 the same clusters. A single cluster "
    "counts 0. A number of clusters that a method finds comes before those given; else the finer of what is as good.",
    "stability": "Mean agreement (ARI) of the clusters of every two seeds, 1 for the same.",
}
ROLES: dict[Role, str] = {
    "centralised": "a centralised baseline: moves the data",
    "synthetic": "not recommended: synthetic copies of samples leave",
}


@dataclass(frozen=True, repr=False)
class Comparison:
    """Result of comparing methods on the same clients.

    Attributes
    ----------
    question : Question
        What was asked.
    rows : tuple of Score
        A row per method, the cheapest first.
    seeds : int
        Runs asked of each method.
    out : Path
        Folder of the comparison.
    finders : tuple of Score
        Those that found the number of clusters themselves.
    notes : tuple of str
        How the data were read, in sentences.
    """

    question: Question
    rows: tuple[Score, ...]
    seeds: int
    out: Path
    finders: tuple[Score, ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Comparison(recommended={self.recommended!r}, methods={len(self.rows)}, out={str(self.out)!r})"

    @cached_property
    def choice(self) -> Choice | None:
        """The recommended row, with the facts that decided; ``None`` if there is none."""
        rows = [row for row in self.rows if row.results]
        return recommend(rows, self.question.clusters is not None)

    @property
    def recommended(self) -> str | None:
        """Name of the recommended method; ``None`` if there is none."""
        return self.choice.score.method if self.choice else None

    @property
    def lines(self) -> tuple[Score, ...]:
        """The rows, in order of rank: the recommended one first, those without a finished run last."""
        return tuple(sorted(self.rows, key=lambda row: (not row.results, row.method != self.recommended, -row.value)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the recommended clusters, in sentences."""
        if self.choice is None:
            return ()
        score, texts = self.choice.score, []
        if self.finders and all(max(finder.clusters) == 1 for finder in self.finders):
            texts.append("Every method that finds the number of clusters finds one: the data may have none.")
        elif score.value <= CHANCE:
            texts.append(
                f"No better than chance: halves of the samples agree on the clusters to {score.value:.2f} (ARI), and "
                f"pieces of a single cloud are found again to {CHANCE:g}, too. The data may have no clusters."
            )
        if self.choice.undecided:
            different = join_words([score.name for score in self.choice.undecided])
            texts.append(f"Undecided: halves do not tell it from {different}, whose clusters differ; look at both.")
        if len(score.results) < self.seeds:
            texts.append(f"Only {len(score.results)} of {self.seeds} runs finished; give a larger budget.")
        if (stable := score.measures.get("stability", 1.0)) < ALIKE:
            texts.append(f"The clusters depend on the seed: those of two runs agree to ARI {stable:.2f} only.")
        return tuple(texts)

    @property
    def confident(self) -> bool:
        """Whether nothing speaks against the recommendation."""
        return not self.warnings

    @property
    def reason(self) -> str:
        """Reason of the recommendation, as the rest of a sentence that begins with "it"."""
        if self.choice is None:
            return "no method that finished may be recommended, or none found more than one cluster"
        score = self.choice.score
        parts = [f"finds clusters that the other half of the samples finds again (ARI {score.value:.3f})"]
        parts += ["finds the number of clusters itself"] if score.number is None else []
        if "stability" in score.measures:
            parts.append(f"agrees with itself over seeds to ARI {score.measures['stability']:.2f}")
        return join_words([*parts, f"moves {format_bytes(score.bytes)} in {duration(score.seconds)}"])

    @property
    def use(self) -> tuple[str, ...]:
        """Commands that run the recommended method alone, and apply it to new samples; none of clients in memory."""
        if self.choice is None or self.question.data == IN_MEMORY:
            return ()
        run = f"runs/{self.question.name}"
        return f"fedkin run {self.out / WINNER} --out {run}", f"fedkin predict {run} NEW.csv"

    @property
    def measures(self) -> list[str]:
        """Names of the measures that any method has: the score, stability, agreement with the truth."""
        names = ("found_again", "stability", *TRUTH)
        return [name for name in names if any(name in row.measures for row in self.rows)]

    @property
    def table(self) -> pd.DataFrame:
        """Return a DataFrame with a row per method.

        Measures are means over runs; ``found_again_std``, ``ari_std`` and so on are their standard deviations, missing
        with a single run.
        """
        return pd.DataFrame(self._values())

    def _values(self) -> list[dict[str, Any]]:
        return [
            {
                "method": line.method,
                "number_given": line.number,
                "recommended": line.method == self.recommended,
                "role": line.role,
                "runs": len(line.results),
                "clusters": mean(line.clusters) if line.clusters else None,
                **{name: line.measures.get(name) for name in self.measures},
                **{f"{name}_std": line.deviations.get(name) for name in self.measures if name != "stability"},
                "megabytes": line.bytes / 1e6 if line.results else None,
                "seconds": line.seconds if line.results else None,
                "remark": line.remark,
            }
            for line in self.lines
        ]

    def to_json(self) -> str:
        """Return the whole comparison as JSON text; its ``lines`` are those of `table`."""
        names = ("recommended", "reason", "use", "confident", "warnings", "seeds", "notes")
        tree = {name: getattr(self, name) for name in names}
        tree |= {"lines": self._values(), "out": str(self.out), "settings": self.question.tables}
        return json.dumps(tree, indent=2, sort_keys=True) + "\n"

    @property
    def lead(self) -> str:
        """The recommendation as a sentence."""
        if self.recommended is None:
            return f"Nothing recommended: {self.reason}."
        doubt = "" if self.confident else ", but without confidence"
        return f"Recommended{doubt}: `{self.recommended}`. It {self.reason}."

    def text(self) -> str:
        """Return what the page says as text for a terminal, without its explanations."""
        return f"{page_text(self.page(), ('doubts', 'methods', 'next'))}\nReport: {self.out / PAGE}"

    def page(self) -> PageView:
        """Build the page."""
        question, doubts, notes = self.question, list(self.warnings), []
        if self.choice is not None and self.choice.as_good:
            doubts.append(f"About as good by the score: {'; '.join(score.name for score in self.choice.as_good)}.")
        for line in self.lines:
            notes += [f"{line.method}: {text}." for text in (ROLES.get(line.role, ""), line.remark) if text]
        meanings = [f"{TITLES[name]}: {MEANINGS[name]}" for name in self.measures if name in MEANINGS]
        meanings.append("ARI and what follows it compare with the truth, which has no part in a recommendation.")
        parts = [
            PagePart("doubts", "Before you rely on it", notes=doubts),
            PagePart("methods", "Methods", figures=[self._table()], notes=notes),
            PagePart("measures", "What is measured", notes=meanings),
            PagePart("data", "The data", notes=list(self.notes)),
            PagePart("next", "Next", commands=list(self.use)),
        ]
        return PageView(
            title="Methods that cluster samples",
            lead=f"{self.lead}\nWhich samples belong together? ({question.data}, scenario {question.scenario})",
            parts=[part for part in parts if part.figures or part.notes or part.commands],
            settings={**question.tables, "method": question.settings},
        )

    def _table(self) -> ResultTable:
        """Build the table: methods by measures."""
        rows = []
        for line in self.lines:
            figures = [f"{line.measures[name]:.3f}" if name in line.measures else "–" for name in self.measures]
            if "found_again" in line.deviations:
                figures[0] += f" ± {line.deviations['found_again']:.3f}"
            figures += [format_bytes(line.bytes), duration(line.seconds)] if line.results else ["–", "–"]
            cells = [TableCell(text) for text in [*figures, f"{len(line.results)} of {self.seeds}"]]
            cells[0] = TableCell(figures[0], verdict="best" if line.method == self.recommended else "")
            # The fewest and the most clusters, whether they were given, and whose form of the method it is.
            ends = (min(line.clusters), max(line.clusters)) if line.clusters else ("–",)
            how = "found" if line.number is None else "given"
            form = method_named(line.method).traits.form(Candidate(line.method).settings({}))
            how = "; ".join(filter(None, [how, form])) if line.clusters else ""
            rows.append((line.method, [TableCell("–".join(dict.fromkeys(map(str, ends))), how), *cells]))
        caption = (
            "By how surely clusters are found again; the recommended one first and marked. Figures are means over the "
            "finished runs, bytes and time those of one run; behind ± the standard deviation over splits."
        )
        heads = ["Clusters", *(TITLES[name] for name in self.measures), "Moved", "Time", "Runs"]
        return ResultTable("All methods", caption, "Method", heads, rows)
