"""Results of comparisons and benchmarks, as a table, a page, and on the terminal."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from fedkin.core.errors import flag
from fedkin.core.files import write_atomically
from fedkin.experiment.outputs import as_csv
from fedkin.experiment.terminal_tables import print_table, sentence_text, table_text
from fedkin.report.figures import PagePart, PageView, ResultTable, TableCell
from fedkin.report.numbers import format_bytes, join_words
from fedkin.studies.cells import CellResult
from fedkin.studies.question import Family, method_named
from fedkin.studies.ranking import SCORE, TRUTH, Ranking, Score, ranked
from fedkin.studies.study import Cell
from fedkin.studies.time_budget import duration

if TYPE_CHECKING:
    import pandas as pd

JSON, CSV, PAGE, BENCHMARK_PAGE = "comparison.json", "comparison.csv", "report.html", "benchmark.html"
TITLES = {
    "found_again": "Found again",
    "accuracy": "Accuracy",
    "stability": "Stability",
    "ari": "ARI",
    "nmi": "NMI",
    "ami": "AMI",
    "pooled_accuracy": "ACC",
    "purity": "Purity",
}
MEANINGS = {
    "found_again": "Each client's samples are split in two at random; what the method predicts for one half from the "
    "other is compared (ARI) with what it finds there itself; 0 is chance, 1 the same clusters. A single cluster "
    "counts 0. Ranks methods; of what is as good, a number that was found or the finer clusters are taken.",
    "accuracy": "Mean over clients of their cluster's model on their own test samples. Ranks methods.",
    "stability": "Mean agreement (ARI) of the clusters of every two seeds, 1 for the same.",
}


@dataclass(frozen=True, repr=False)
class Comparison:
    """Result of comparing methods on the same clients.

    Attributes
    ----------
    question : str
        What was asked.
    family : {"samples", "clients"}
    lines : tuple of fedkin.studies.ranking.Score
        A row per method in order of rank, the recommended one first; those without a finished run last.
    recommended : str or None
        Name of the recommended method; ``None`` if there is none.
    reason : str
        Reason of the recommendation, in a sentence.
    use : tuple of str
        Commands, or calls in Python, that run the recommended method alone and apply it.
    seeds, budget, spent
        Runs asked of each method; seconds allowed and spent this time.
    out : Path
        Folder of the comparison.
    settings : dict
        The experiment of all runs.
    warnings : tuple of str
        Reasons to doubt the recommended clusters, in sentences.
    better_than_chance : bool or None
        Whether the clusters of any method are found again; ``None`` of clients.
    undecided : bool
        Whether a method with different clusters is as good as can be told.
    as_good : tuple of str
        Methods, with their number of clusters if given, that cannot be told from the recommended one.
    notes : tuple of str
        How the data were read, in sentences.
    """

    question: str
    family: Family
    lines: tuple[Score, ...]
    recommended: str | None
    reason: str
    use: tuple[str, ...]
    seeds: int
    budget: float
    spent: float
    out: Path
    settings: dict[str, Any]
    warnings: tuple[str, ...] = ()
    better_than_chance: bool | None = None
    undecided: bool = False
    as_good: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Comparison(recommended={self.recommended!r}, methods={len(self.lines)}, out={str(self.out)!r})"

    @property
    def confident(self) -> bool:
        """Whether nothing speaks against the recommendation."""
        return not self.warnings

    @property
    def measures(self) -> list[str]:
        """Names of the measures that any method has: the score, stability, agreement with the truth."""
        names = (SCORE[self.family], "stability", *TRUTH[self.family])
        return [name for name in names if any(name in line.measures for line in self.lines)]

    @property
    def table(self) -> pd.DataFrame:
        """Return a DataFrame with a row per method, in order of rank, and the columns of ``comparison.csv``.

        Measures are means over runs; ``found_again_std``, ``ari_std`` and so on are their standard deviations, missing
        with a single run; ``accuracy_error`` is the standard error over clients.
        """
        import pandas as pd

        return pd.DataFrame(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Return a dict of plain values per method; ``None`` where something is not known."""
        return [
            {
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
                "remark": line.remark,
            }
            for line in self.lines
        ]

    def to_json(self) -> str:
        """Return the whole comparison as JSON text; its ``lines`` are those of ``comparison.csv``."""
        tree = {name: value for name, value in vars(self).items() if name != "lines"}
        tree |= {"lines": self.rows(), "confident": self.confident, "out": str(self.out)}
        return json.dumps(tree, indent=2, sort_keys=True) + "\n"

    def write(self) -> None:
        """Write ``comparison.json`` and ``comparison.csv``; raises FedkinError if a file cannot be written."""
        rows = self.rows()
        write_atomically(self.out / CSV, as_csv([list(rows[0]), *(list(row.values()) for row in rows)]))
        write_atomically(self.out / JSON, self.to_json())

    @property
    def lead(self) -> str:
        """The recommendation as a sentence."""
        if self.recommended is None:
            return f"Nothing recommended: {self.reason}."
        doubt = "" if self.confident else ", but without confidence"
        return f"Recommended{doubt}: {self.recommended}. It {self.reason}."

    @property
    def doubts(self) -> list[str]:
        """Warnings, and methods that are as good, in sentences."""
        if not self.as_good:
            return [*self.warnings]
        names = "; ".join(self.as_good) if any("," in name for name in self.as_good) else join_words(self.as_good)
        return [*self.warnings, f"About as good by the score: {names}."]

    @property
    def headings(self) -> list[str]:
        """Headings of the columns of `cells`."""
        return ["Clusters", *(TITLES[name] for name in self.measures), "Moved", "Time", "Runs"]

    def cells(self, line: Score) -> list[str]:
        """Return a method's figures as text: clusters, measures, traffic, time, finished runs."""
        figures = [_number(line.measures.get(name)) for name in self.measures]
        if line.error is not None and self.measures[0] in line.measures:
            figures[0] += f" ± {line.error:.3f}"
        traffic = "–" if line.bytes is None else format_bytes(line.bytes)
        seconds = "–" if line.seconds is None else duration(line.seconds)
        return [_span(line.clusters), *figures, traffic, seconds, f"{len(line.results)} of {self.seeds}"]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _span(clusters: Sequence[int]) -> str:
    """Format numbers of clusters, from the fewest to the most."""
    if not clusters:
        return "–"
    return str(clusters[0]) if len(set(clusters)) == 1 else f"{min(clusters)}–{max(clusters)}"


def _remarks(lines: Sequence[Score], missing_only: bool = False) -> dict[str, str]:
    """Return the methods that each remark is about; with `missing_only` those without a finished run."""
    methods: dict[str, list[str]] = {}
    for line in lines:
        if line.remark and not (missing_only and line.results):
            methods.setdefault(line.remark, []).append(line.method)
    return {remark: ", ".join(names) for remark, names in methods.items()}


def print_comparison(comparison: Comparison) -> None:
    """Print the table, the recommendation and the next command, with rules on a terminal only."""
    print(sentence_text(comparison.question))
    rows = [
        (f"{'*' if line.method == comparison.recommended else ' '} {line.name}", *comparison.cells(line), line.remark)
        for line in comparison.lines
    ]
    columns = ("Method", *comparison.headings, "Remark")
    print_table(rows, columns, left=(0, len(columns) - 1))
    warnings = [f"Warning: {text}" for text in comparison.warnings]
    for text in [comparison.lead, *warnings, *comparison.doubts[len(warnings) :]]:
        print(sentence_text(text, elsewhere=118))
    for line in [*(f"  {command}" for command in comparison.use[:1]), f"Report: {comparison.out / PAGE}"]:
        print(line)


def page_of(comparison: Comparison) -> PageView:
    """Build the page of a comparison."""
    name = comparison.recommended
    lead = comparison.lead.replace(f": {name}. ", f": `{name}`. ", 1)
    finished = sum(bool(line.results) for line in comparison.lines)
    doubt = "" if comparison.confident or not name else ", without confidence"
    return PageView(
        title=f"Which {comparison.family} belong together: methods compared",
        lead=f"{lead}\n{comparison.question}",
        summary=[
            ("Recommended", name or "–", "chosen without the truth" + doubt),
            ("Methods", f"{finished} of {len(comparison.lines)}", "finished at least once"),
            ("Time", f"{duration(comparison.spent)} of {duration(comparison.budget)}", "of the budget, this time"),
        ],
        parts=[
            *([PagePart("doubts", "Before you rely on it", notes=comparison.doubts)] if comparison.doubts else []),
            PagePart("methods", "Methods", figures=[_table(comparison)], notes=_notes(comparison)),
            PagePart("leaves", "What leaves a client", figures=[_leaving(comparison)]),
            *([PagePart("data", "The data", notes=list(comparison.notes))] if comparison.notes else []),
            *([PagePart("next", "Next", commands=list(comparison.use))] if comparison.use else []),
        ],
        settings=comparison.settings,
    )


def _table(comparison: Comparison) -> ResultTable:
    rows = []
    for line in comparison.lines:
        cells = [TableCell(text) for text in comparison.cells(line)]
        is_best = line.method == comparison.recommended
        beside = "" if not line.results or line.role == "baseline" else "found" if line.number is None else "given"
        cells[0] = TableCell(cells[0].text, beside)
        as_good = line.name in comparison.as_good and not is_best
        cells[1] = TableCell(cells[1].text, "about as good" if as_good else "", "best" if is_best else "")
        rows.append((line.method, cells))
    score = SCORE[comparison.family]
    error = {
        "samples": "standard deviation over splits",
        "clients": "standard error over clients; the recommendation compares methods client by client",
    }[comparison.family]
    caption = (
        f"Ranked by {TITLES[score].lower()}; the best first, the recommended one marked. Figures are means over the "
        f"finished runs, bytes and time those of one run. Behind ± stands the {error}."
    )
    return ResultTable("All methods", caption, "Method", comparison.headings, rows)


def _leaving(comparison: Comparison) -> ResultTable:
    """Build the table of what a client sends by each method."""
    rows = []
    for line in comparison.lines:
        traits = method_named(line.method).traits
        warned = traits.moves_data or traits.copies_data
        words = f"{traits.sends[:1].upper()}{traits.sends[1:]}." if traits.sends else "Not said by the method."
        rows.append((line.method, [TableCell(words, beside="samples, or copies, leave" if warned else "")]))
    caption = (
        "What the server receives, beside shapes, minima, maxima and counts for scaling. The privacy page of the "
        "documentation says what each can reveal."
    )
    return ResultTable("By method", caption, "Method", ["A client sends"], rows)


def _notes(comparison: Comparison) -> list[str]:
    notes = [f"{methods}: {remark}." for remark, methods in _remarks(comparison.lines).items()]
    notes += [f"{TITLES[name]}: {MEANINGS[name]}" for name in comparison.measures if name in MEANINGS]
    if set(comparison.measures) & set(TRUTH[comparison.family]):
        notes.append("ARI and what follows it compare with the truth, which had no part in the ranking.")
    return notes


@dataclass(frozen=True)
class Benchmark:
    """Result of a benchmark: the rows of each scenario, by its name, and every run.

    `data` and the settings that all methods `shared` are the benchmark's; all else is a method's default.
    """

    family: Family
    data: str
    shared: Mapping[str, Any]
    rows: Mapping[str, Sequence[Score]]
    results: Mapping[Cell, CellResult]

    @property
    def measure(self) -> str:
        """Name of the measure that ranks."""
        return "ari" if self.family == "samples" else "accuracy"

    @property
    def ranking(self) -> Ranking:
        """Ranks of the methods over all scenarios."""
        means = {(name, row.method): row.measures.get(self.measure) for name, rows in self.rows.items() for row in rows}
        return ranked({cell: value for cell, value in means.items() if value is not None})

    @property
    def failures(self) -> list[str]:
        """Methods without a result, by scenario and reason, in sentences."""
        return [
            f"{names}, {scenario}: {why}"
            for scenario, rows in self.rows.items()
            for why, names in _remarks(rows, missing_only=True).items()
        ]

    def best(self, scenario: str) -> list[str]:
        """Return the best method of a scenario, and those within two standard errors of it, best first.

        The standard error is that of the difference of means over seeds, 0 for a single seed.
        """
        scored = [row for row in self.rows[scenario] if self.measure in row.measures]
        scored.sort(key=lambda row: (-row.measures[self.measure], row.method))

        def variance(row: Score) -> float:
            return row.deviations.get(self.measure, 0.0) ** 2 / len(row.results)

        return [
            row.method
            for row in scored
            if scored[0].measures[self.measure] - row.measures[self.measure]
            <= 2 * math.sqrt(variance(scored[0]) + variance(row))
        ]

    def plain(self) -> list[dict[str, Any]]:
        """Return every run as plain values, without labels."""
        runs = [{**asdict(cell), **asdict(result)} for cell, result in self.results.items()]
        return [{name: value for name, value in run.items() if name not in ("labels", "again")} for run in runs]

    def page(self) -> PageView:
        """Build the page."""
        shared = "Everything is"
        if self.family == "clients":
            shared = f"{self.shared['rounds']} rounds of `{self.shared['module']}`; everything else is"
        ranking, table = self.ranking, self._table()
        measure = {"samples": "ARI of samples' clusters and their classes",
                   "clients": "mean accuracy of each client's model on its own tests"}[self.family]  # fmt: skip
        failures = [PagePart("failures", "Without a result", notes=self.failures)] if self.failures else []
        return PageView(
            title=f"Benchmark of methods that cluster {self.family}",
            lead=f"On `{self.data}`, by {measure}. {shared} a method's default, none is tuned. Methods that cannot "
            "find the number of clusters are given it.",
            summary=[
                ("Methods", str(len(table.rows)), "with a result or a reason"),
                ("Scenarios", str(len(self.rows)), "of data and clients"),
                ("Runs", str(len(self.results)), "finished or given up"),
            ],
            parts=[PagePart("scores", "Scenario by scenario", figures=[table], notes=[ranking.sentence]), *failures],
            settings={"family": self.family, "data": self.data, **self.shared},
        )

    def text(self) -> str:
        """Write the scores and ranks for a terminal."""
        table = self._table()
        rows = [(name, *(cell.text for cell in cells)) for name, cells in table.rows]
        lines = [table_text([("method", *self.rows, "rank", "clusters", "moved", "seconds"), *rows])]
        lines.append(sentence_text(self.ranking.sentence))
        if failures := self.failures:
            lines += [f"Without a result; with a longer {flag('limit')}, what took too long is tried again:"]
            lines += [f"  {failure}" for failure in failures]
        return "\n".join(lines)

    def _table(self) -> ResultTable:
        """Build the table of all methods, by rank, those without a rank last."""
        ranking, rows = self.ranking, []
        best = {scenario: self.best(scenario) for scenario in self.rows}
        by_method: dict[str, dict[str, Score]] = {method: {} for method in ranking.ranks}
        for scenario, scores in self.rows.items():
            for score in scores:
                by_method.setdefault(score.method, {})[scenario] = score
        for method, by_scenario in by_method.items():
            cells = []
            for scenario, score in by_scenario.items():
                spread = score.deviations.get(self.measure)
                beside = "" if spread is None else f"± {spread:.3f}"
                value = _number(score.measures.get(self.measure))
                cells.append(TableCell(value, beside, "best" if method in best[scenario] else ""))
            rank, is_best = ranking.ranks.get(method), bool(ranking.difference) and method in ranking.as_good
            cells.append(TableCell("–" if rank is None else f"{rank:.2f}", verdict="best" if is_best else ""))
            numbers = [number for score in by_scenario.values() for number in score.clusters]
            traits = method_named(method).traits
            cells.append(TableCell(_span(numbers), "given" if traits.takes_k and not traits.finds_k else "found"))
            traffic = [score.bytes for score in by_scenario.values() if score.bytes is not None]
            seconds = [score.seconds for score in by_scenario.values() if score.seconds is not None]
            cells.append(TableCell(format_bytes(mean(traffic)) if traffic else "–"))
            cells.append(TableCell(f"{mean(seconds):.1f}" if seconds else "–"))
            rows.append((method, cells))
        caption = (
            f"{TITLES[self.measure]}: mean and standard deviation over seeds, and the mean rank. Marked: the best, and "
            "what does not differ significantly from it. Traffic and computing time are means over scenarios, each run "
            "on one thread."
        )
        return ResultTable("Scores", caption, "Method", [*self.rows, "Mean rank", "Clusters", "Moved", "Seconds"], rows)
