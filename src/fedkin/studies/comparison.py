"""Result of a comparison or a benchmark: rows of methods, the recommendation with its doubts, and the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from fedkin.core.files import write_atomically
from fedkin.experiment.outputs import as_csv
from fedkin.report.figures import PagePart, PageView, ResultTable, TableCell
from fedkin.report.numbers import format_bytes, join_words
from fedkin.studies.pages import duration, page_text
from fedkin.studies.question import Family, Role, method_named
from fedkin.studies.ranking import ALIKE, CHANCE, SAME, SCORE, TRUTH, Choice, Ranking, Score, ranked, recommend

if TYPE_CHECKING:
    import pandas as pd

JSON, CSV, PAGE = "comparison.json", "comparison.csv", "report.html"
TITLES = {
    "found_again": "Found again", "accuracy": "Accuracy", "stability": "Stability", "ari": "ARI", "nmi": "NMI",
    "ami": "AMI", "pooled_accuracy": "ACC", "purity": "Purity",
}  # fmt: skip
MEANINGS = {
    "found_again": "Each client's samples are split in two at random; what the method predicts for one half from the "
    "other is compared (ARI) with what it finds there itself; 0 is chance, 1 the same clusters. A single cluster "
    "counts 0. Ranks methods; of what is as good, a number that was found or the finer clusters are taken.",
    "accuracy": "Mean over clients of their cluster's model on their own test samples. Ranks methods.",
    "stability": "Mean agreement (ARI) of the clusters of every two seeds, 1 for the same.",
}
ROLES: dict[Role, str] = {
    "centralised": "a centralised baseline: moves the data",
    "synthetic": "not recommended: synthetic copies of samples leave",
    "baseline": "forms no clusters",
}


@dataclass(frozen=True, repr=False)
class Comparison:
    """Result of comparing methods on the same clients, or on the scenarios of a benchmark.

    Attributes
    ----------
    question : str
        What was asked.
    family : {"samples", "clients"}
    scenarios : dict
        The rows of each scenario, `fedkin.studies.ranking.Score`, by its name; of a comparison under an empty name, in
        order of rank, the recommended one first and those without a finished run last.
    seeds : int
        Runs asked of each method.
    out : Path
        Folder of the comparison.
    settings : dict
        The experiment of all runs.
    choice : Choice or None
        The recommended row, with the facts that decided; ``None`` if there is none.
    reason : str
        Reason of the recommendation, in a sentence.
    use : tuple of str
        Commands, or a call in Python, that run the recommended method alone and apply it.
    warnings : tuple of str
        Reasons to doubt the recommended clusters, in sentences.
    better_than_chance : bool or None
        Whether the clusters of any method are found again; ``None`` of clients.
    notes : tuple of str
        How the data were read, in sentences.
    """

    question: str
    family: Family
    scenarios: dict[str, tuple[Score, ...]]
    seeds: int
    out: Path
    settings: dict[str, Any]
    choice: Choice | None = None
    reason: str = "no method that finished may be recommended, or none found more than one cluster"
    use: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    better_than_chance: bool | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Comparison(recommended={self.recommended!r}, methods={len(self.lines)}, out={str(self.out)!r})"

    @property
    def is_benchmark(self) -> bool:
        """Whether methods are ranked over scenarios, rather than one recommended."""
        return "" not in self.scenarios

    @property
    def lines(self) -> tuple[Score, ...]:
        """The rows of all scenarios."""
        return tuple(row for rows in self.scenarios.values() for row in rows)

    @property
    def recommended(self) -> str | None:
        """Name of the recommended method; ``None`` if there is none."""
        return self.choice.score.method if self.choice else None

    @property
    def confident(self) -> bool:
        """Whether nothing speaks against the recommendation."""
        return not self.warnings

    @property
    def undecided(self) -> bool:
        """Whether a method with different clusters is as good as can be told."""
        return bool(self.choice and self.choice.undecided)

    @property
    def as_good(self) -> tuple[str, ...]:
        """Methods, with their number of clusters if given, that cannot be told from the recommended one."""
        return tuple(score.candidate.name for score in self.choice.as_good) if self.choice else ()

    @property
    def measures(self) -> list[str]:
        """Names of the measures that any method has: the score, stability, agreement with the truth."""
        names = (SCORE[self.family], "stability", *TRUTH[self.family])
        return [name for name in names if any(name in line.measures for line in self.lines)]

    @cached_property
    def ranking(self) -> Ranking:
        """Ranks of the methods over all scenarios: of samples by ARI, of clients by accuracy."""
        measure = "ari" if self.is_benchmark and self.family == "samples" else SCORE[self.family]
        means = {
            (scenario, row.method): row.measures[measure]
            for scenario, rows in self.scenarios.items()
            for row in rows
            if measure in row.measures
        }
        return ranked(means)

    @property
    def table(self) -> pd.DataFrame:
        """Return a DataFrame with a row per method and scenario and the columns of ``comparison.csv``.

        Measures are means over runs; ``found_again_std``, ``ari_std`` and so on are their standard deviations, missing
        with a single run; ``accuracy_error`` is the standard error over clients.
        """
        import pandas as pd

        return pd.DataFrame(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Return a dict of plain values per method and scenario; ``None`` where something is not known."""
        return [
            {
                **({"scenario": scenario} if scenario else {}),
                "method": line.method,
                "number_given": line.number,
                "recommended": line.method == self.recommended,
                "role": line.role,
                "runs": len(line.results),
                "clusters": mean(line.clusters) if line.clusters else None,
                **{name: line.measures.get(name) for name in self.measures},
                **({"accuracy_error": line.error} if self.family == "clients" else {}),
                **{f"{name}_std": line.deviations.get(name) for name in self.measures if name != "stability"},
                "megabytes": None if line.bytes is None else line.bytes / 1e6,
                "seconds": line.seconds,
                "remark": _remark(line),
            }
            for scenario, lines in self.scenarios.items()
            for line in lines
        ]

    def to_json(self) -> str:
        """Return the whole comparison as JSON text; its ``lines`` are those of ``comparison.csv``."""
        names = ("question", "family", "recommended", "reason", "use", "confident", "warnings", "undecided", "as_good")
        tree = {name: getattr(self, name) for name in (*names, "better_than_chance", "seeds", "settings", "notes")}
        tree |= {"lines": self.rows(), "out": str(self.out)}
        tree |= {"ranks": self.ranking.ranks} if self.is_benchmark else {}
        return json.dumps(tree, indent=2, sort_keys=True) + "\n"

    def write(self) -> None:
        """Write ``comparison.json`` and ``comparison.csv``; raises FedkinError if a file cannot be written."""
        rows = self.rows()
        write_atomically(self.out / CSV, as_csv([list(rows[0]), *(list(row.values()) for row in rows)]))
        write_atomically(self.out / JSON, self.to_json())

    @property
    def lead(self) -> str:
        """The recommendation as a sentence, or the ranks."""
        if self.is_benchmark:
            return self.ranking.sentence
        if self.recommended is None:
            return f"Nothing recommended: {self.reason}."
        doubt = "" if self.confident else ", but without confidence"
        return f"Recommended{doubt}: `{self.recommended}`. It {self.reason}."

    def text(self) -> str:
        """Return what the page says as text for a terminal, without its explanations."""
        text = page_text(self.page(), ("doubts", "methods", "remarks", "next"))
        return f"{text}\nReport: {self.out / PAGE}"

    def page(self) -> PageView:
        """Build the page."""
        doubts = list(self.warnings)
        if self.as_good:
            separator = "; " if any("," in name for name in self.as_good) else ", "
            doubts.append(f"About as good by the score: {separator.join(self.as_good)}.")
        finished = sum(bool(line.results) for line in self.lines)
        summary = [("Methods", f"{finished} of {len(self.lines)}", "have a result")]
        if not self.is_benchmark:
            doubt = "" if self.confident or not self.recommended else ", without confidence"
            summary.insert(0, ("Recommended", self.recommended or "–", "chosen without the truth" + doubt))
        table = self._scenario_table() if self.is_benchmark else self._measure_table()
        remarks: dict[str, list[str]] = {}
        for scenario, lines in self.scenarios.items():
            for line in lines:
                if remark := _remark(line):
                    name = f"{line.method}, {scenario}" if scenario and line.remark else line.method
                    remarks.setdefault(remark, []).append(name)
        notes = [f"{'; '.join(dict.fromkeys(names))}: {remark}." for remark, names in remarks.items()]
        parts = [
            PagePart("doubts", "Before you rely on it", notes=doubts),
            PagePart("methods", "Methods", figures=[table]),
            PagePart("remarks", "Remarks", notes=notes),
            PagePart("measures", "What is measured", notes=self._meanings()),
            PagePart("leaves", "What leaves a client", figures=[self._leaving()]),
            PagePart("data", "The data", notes=list(self.notes)),
            PagePart("next", "Next", commands=list(self.use)),
        ]
        title = f"Which {self.family} belong together: methods compared"
        return PageView(
            title=f"Benchmark of methods that cluster {self.family}" if self.is_benchmark else title,
            lead=self.lead if self.is_benchmark else f"{self.lead}\n{self.question}",
            summary=summary,
            parts=[part for part in parts if part.figures or part.notes or part.commands],
            settings=self.settings,
        )

    def _measure_table(self) -> ResultTable:
        """Build the table of a comparison: methods by measures."""
        rows = []
        for line in self.scenarios[""]:
            figures = [_number(line.measures.get(name)) for name in self.measures]
            if line.error is not None and self.measures[0] in line.measures:
                figures[0] += f" ± {line.error:.3f}"
            cells = [TableCell(text) for text in [*figures, *_costs([line]), f"{len(line.results)} of {self.seeds}"]]
            as_good = line.candidate.name in self.as_good and line.method != self.recommended
            cells[0] = TableCell(
                figures[0], "about as good" if as_good else "", "best" if line.method == self.recommended else ""
            )
            rows.append((line.method, [_clusters([line]), *cells]))
        error = {
            "samples": "standard deviation over splits",
            "clients": "standard error over clients; the recommendation compares methods client by client",
        }[self.family]
        caption = (
            f"Ranked by {TITLES[SCORE[self.family]].lower()}; the best first, the recommended one marked. Figures are "
            f"means over the finished runs, bytes and time those of one run. Behind ± stands the {error}."
        )
        heads = ["Clusters", *(TITLES[name] for name in self.measures), "Moved", "Time", "Runs"]
        return ResultTable("All methods", caption, "Method", heads, rows)

    def _scenario_table(self) -> ResultTable:
        """Build the table of a benchmark: methods by scenarios, in order of rank, those without a rank last."""
        measure = "ari" if self.family == "samples" else "accuracy"
        ranking, rows = self.ranking, []
        greatest = {
            name: max((row.measures.get(measure, 0.0) for row in rows_of), default=0.0)
            for name, rows_of in self.scenarios.items()
        }
        for method in dict.fromkeys([*ranking.ranks, *(line.method for line in self.lines)]):
            lines = {name: row for name, rows_of in self.scenarios.items() for row in rows_of if row.method == method}
            cells = []
            for name, row in lines.items():
                value, spread = row.measures.get(measure), row.deviations.get(measure)
                beside = "" if spread is None else f"± {spread:.3f}"
                cells.append(TableCell(_number(value), beside, "best" if value == greatest[name] else ""))
            rank, is_best = ranking.ranks.get(method), bool(ranking.difference) and method in ranking.as_good
            cells.append(TableCell("–" if rank is None else f"{rank:.2f}", verdict="best" if is_best else ""))
            rows.append((method, [*cells, _clusters([*lines.values()]), *map(TableCell, _costs([*lines.values()]))]))
        caption = (
            f"{TITLES[measure]}: mean and standard deviation over seeds, the best of each scenario marked; the mean "
            "rank, marked where it does not differ significantly from the best. No method is tuned, and those that "
            "cannot find the number of clusters are given it. Traffic and computing time are means over scenarios."
        )
        return ResultTable(
            "Scores", caption, "Method", [*self.scenarios, "Mean rank", "Clusters", "Moved", "Time"], rows
        )

    def _leaving(self) -> ResultTable:
        """Build the table of what a client sends by each method."""
        rows = []
        for method in dict.fromkeys(line.method for line in self.lines):
            traits = method_named(method).traits
            warned = traits.moves_data or traits.copies_data
            words = f"{traits.sends[:1].upper()}{traits.sends[1:]}." if traits.sends else "Not said by the method."
            rows.append((method, [TableCell(words, beside="samples, or copies, leave" if warned else "")]))
        caption = (
            "What the server receives, beside shapes, minima, maxima and counts for scaling. The privacy page of the "
            "documentation says what each can reveal."
        )
        return ResultTable("By method", caption, "Method", ["A client sends"], rows)

    def _meanings(self) -> list[str]:
        notes = [f"{TITLES[name]}: {MEANINGS[name]}" for name in self.measures if name in MEANINGS]
        if not self.is_benchmark and set(self.measures) & set(TRUTH[self.family]):
            notes.append("ARI and what follows it compare with the truth, which had no part in the ranking.")
        return notes


def judged(comparison: Comparison, finders: Sequence[Score], guess: float | None) -> Comparison:
    """Return the comparison with its recommendation, and reasons to doubt it.

    `finders` are the scores of methods that found the number of clusters themselves; `guess` is the accuracy of always
    answering a client's most frequent class, where clients are clustered.
    """
    best = [row for row in comparison.scenarios[""] if row.results]
    choice, family = recommend(comparison.family, best), comparison.family
    if choice is None:
        return replace(comparison, scenarios={"": _in_order(comparison.scenarios[""], None)})
    score, measures = choice.score, choice.score.measures
    doubts: list[str] = []
    chance = None
    if family == "samples":
        single = bool(finders) and all(max(finder.clusters) == 1 for finder in finders)
        again = measures["found_again"]
        chance = again > CHANCE and not single
        if single:
            doubts.append("Every method that finds the number of clusters finds one: the data may have none.")
        elif not chance:
            doubts.append(
                f"No better than chance: halves of the samples agree on the clusters to {again:.2f} (ARI), and pieces "
                f"of a single cloud are found again to {CHANCE:g}, too. The data may have no clusters."
            )
        if choice.undecided:
            names = join_words([different.candidate.name for different in choice.undecided])
            doubts.append(f"Undecided: halves do not tell it from {names}, whose clusters differ; look at both.")
    elif guess is not None and measures["accuracy"] <= guess:
        doubts.append(
            f"The clusters' models are no better than a guess: an accuracy of {measures['accuracy']:.3f}, where always "
            f"answering a client's most frequent class has {guess:.3f}. They need more rounds, or another model."
        )
    if len(score.results) < comparison.seeds:
        runs = f"{len(score.results)} of {comparison.seeds} runs"
        doubts.append(f"Only {runs} finished; the same with a larger budget resumes.")
    if measures.get("stability", 1.0) < ALIKE:
        doubts.append(
            f"The clusters depend on the seed: those of two runs agree to ARI {measures['stability']:.2f} only."
        )
    return replace(
        comparison,
        scenarios={"": _in_order(comparison.scenarios[""], score.method)},
        choice=choice,
        reason=_reason(family, choice),
        warnings=tuple(doubts),
        better_than_chance=chance,
    )


def _in_order(rows: Sequence[Score], recommended: str | None) -> tuple[Score, ...]:
    return tuple(sorted(rows, key=lambda row: (not row.results, row.method != recommended, -row.value)))


def _reason(family: Family, choice: Choice) -> str:
    """Explain why a method is recommended, as the rest of a sentence that begins with "it"."""
    score, measures = choice.score, choice.score.measures
    if family == "samples":
        again = measures["found_again"]
        parts = [f"finds clusters that the other half of the samples finds again (ARI {again:.3f})"]
    else:
        parts = [f"reaches an accuracy of {measures['accuracy']:.3f} on clients' own test samples"]
    if choice.baseline is not None:
        level = choice.baseline.measures["accuracy"]
        parts.append(
            f"is not significantly better than {choice.baseline.method}, which forms no clusters ({level:.3f})"
        )
    if family == "samples" and score.number is None:
        parts.append("finds the number of clusters itself")
    if "stability" in measures:
        stable = measures["stability"]
        same = f"finds the same clusters over seeds (ARI {stable:.2f})"
        parts.append(same if stable >= SAME else f"agrees with itself over seeds to ARI {stable:.2f}")
    return join_words([*parts, f"moves {format_bytes(score.bytes or 0)} in {duration(score.seconds or 0)}"])


def _remark(line: Score) -> str:
    return "; ".join(filter(None, [ROLES.get(line.role, ""), line.remark]))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _clusters(lines: Sequence[Score]) -> TableCell:
    """Return the numbers of clusters, from the fewest to the most, and whether they were given."""
    numbers = [number for line in lines for number in line.clusters]
    if not numbers:
        return TableCell("–")
    text = str(numbers[0]) if len(set(numbers)) == 1 else f"{min(numbers)}–{max(numbers)}"
    beside = "" if lines[0].role == "baseline" else "found" if lines[0].number is None else "given"
    return TableCell(text, beside)


def _costs(lines: Sequence[Score]) -> list[str]:
    """Return bytes and seconds of one run, means over scenarios."""
    traffic = [line.bytes for line in lines if line.bytes is not None]
    seconds = [line.seconds for line in lines if line.seconds is not None]
    return [format_bytes(mean(traffic)) if traffic else "–", duration(mean(seconds)) if seconds else "–"]
