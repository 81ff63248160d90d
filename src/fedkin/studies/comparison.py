"""Result of a comparison: a row per method, the recommended one, and both as a page and on the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkin.core.files import write_atomically
from fedkin.experiment.outputs import as_csv
from fedkin.experiment.terminal_tables import print_table, sentence_text
from fedkin.report.figures import Bars, PagePart, PageView, ResultTable, TableCell
from fedkin.report.numbers import format_bytes, join_words
from fedkin.studies.question import Candidate, Family, Role, method_named
from fedkin.studies.time_budget import duration

if TYPE_CHECKING:
    import pandas as pd

JSON, CSV, PAGE = "comparison.json", "comparison.csv", "report.html"
TRUTH: dict[Family, tuple[str, ...]] = {
    "samples": ("ari", "nmi", "pooled_accuracy"),
    "clients": ("ari", "ami", "purity"),
}
"""Agreement with the truth, as the evaluation of runs names it; the first is what ``by="truth"`` means."""
SCORE: dict[Family, str] = {"samples": "found_again", "clients": "accuracy"}
"""The measure without truth that candidates are ranked by."""
MEASURES = ("found_again", "accuracy", "stability")
TITLES = {
    "found_again": "Found again",
    "stability": "Stability",
    "accuracy": "Accuracy",
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
ERRORS = {
    "samples": "standard deviation over splits",
    "clients": "standard error over clients; the recommendation compares methods client by client",
}


@dataclass(frozen=True)
class ComparisonRow:
    """Row of a comparison: one method.

    Attributes
    ----------
    method : str
    number : int or None
        Number of clusters it was given.
    role : {"", "centralised", "synthetic", "baseline"}
        Centralised methods move the data, and synthetic ones copies; baselines form no clusters. The first two are not
        recommended.
    runs : int
        Number of finished runs.
    clusters : tuple of int
        Number of clusters in each run.
    measures, truth : dict
        Means over runs: ``found_again`` or ``accuracy``, and ``stability``; agreement with the truth, if there is one.
    deviations : dict
        Their standard deviations over runs; empty with a single run.
    error : float or None
        Spread of the score over splits, or the standard error of mean accuracy over clients; ``None`` if unknown.
    bytes, seconds : float or None
        Traffic and computing time of a run, means over runs; ``None`` without a finished run.
    memory : int
        The most memory of a run's process in bytes, Python and PyTorch included; 0 if unknown.
    remark : str
        Remark, such as why no run has finished.
    """

    method: str
    number: int | None
    role: Role
    runs: int = 0
    clusters: tuple[int, ...] = ()
    measures: dict[str, float] = field(default_factory=dict)
    truth: dict[str, float] = field(default_factory=dict)
    deviations: dict[str, float] = field(default_factory=dict)
    error: float | None = None
    bytes: float | None = None
    seconds: float | None = None
    memory: int = 0
    remark: str = ""

    @property
    def name(self) -> str:
        """Name of the method, with the number of clusters it was given."""
        return Candidate(self.method, self.number).name


@dataclass(frozen=True, repr=False)
class Comparison:
    """Result of comparing methods on the same clients.

    Attributes
    ----------
    question : str
        What was asked.
    family : {"samples", "clients"}
    lines : tuple of ComparisonRow
        Rows in order of rank, the recommended one first; those without a finished run last.
    recommended : str or None
        Name of the recommended method; ``None`` if there is none.
    reason : str
        Reason of the recommendation, in a sentence.
    use : tuple of str
        Commands, or calls in Python, that run the recommended method alone and apply it.
    by : {"score", "truth"}
        Criterion of the ranking and the recommendation.
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
        Whether a method with other clusters is as good as can be told.
    as_good : tuple of str
        Methods, with their number of clusters if given, that cannot be told from the recommended one.
    notes : tuple of str
        How the data were read, in sentences.
    """

    question: str
    family: Family
    lines: tuple[ComparisonRow, ...]
    recommended: str | None
    reason: str
    use: tuple[str, ...]
    by: str
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
    def score(self) -> str:
        """Name of the measure without truth that methods are ranked by."""
        return SCORE[self.family]

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures without truth that any method has, the score first."""
        return tuple(name for name in MEASURES if any(name in line.measures for line in self.lines))

    @property
    def truth(self) -> tuple[str, ...]:
        """Names of the measures of agreement with the truth, if there is one."""
        return tuple(name for name in TRUTH[self.family] if any(name in line.truth for line in self.lines))

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
                "runs": line.runs,
                "clusters": sum(line.clusters) / len(line.clusters) if line.clusters else None,
                **{name: line.measures.get(name) for name in self.measures},
                **({"accuracy_error": line.error} if self.family == "clients" else {}),
                **{name: line.truth.get(name) for name in self.truth},
                **{f"{name}_std": line.deviations.get(name) for name in (self.score, *self.truth)},
                "megabytes": None if line.bytes is None else line.bytes / 1e6,
                "seconds": line.seconds,
                "remark": line.remark,
            }
            for line in self.lines
        ]

    def to_json(self) -> str:
        """Return the whole comparison as JSON text."""
        tree = {**asdict(self), "confident": self.confident, "out": str(self.out)}
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


def page_of(comparison: Comparison) -> PageView:
    """Build the page of a comparison."""
    name = comparison.recommended
    lead = comparison.lead.replace(f": {name}. ", f": `{name}`. ", 1)
    finished = sum(line.runs > 0 for line in comparison.lines)
    how = "chosen by the truth" if comparison.by == "truth" else "chosen without the truth"
    doubt = "" if comparison.confident or not name else ", without confidence"
    return PageView(
        title=f"Which {comparison.family} belong together: methods compared",
        lead=f"{lead}\n{comparison.question}",
        summary=[
            ("Recommended", name or "–", how + doubt),
            ("Methods", f"{finished} of {len(comparison.lines)}", "finished at least once"),
            ("Time", f"{duration(comparison.spent)} of {duration(comparison.budget)}", "of the budget, this time"),
        ],
        parts=[
            *([PagePart("doubts", "Before you rely on it", notes=comparison.doubts)] if comparison.doubts else []),
            PagePart("methods", "Methods", figures=[_table(comparison), _bars(comparison)], notes=_notes(comparison)),
            PagePart("leaves", "What leaves a client", figures=[_leaving(comparison)]),
            *([PagePart("data", "The data", notes=list(comparison.notes))] if comparison.notes else []),
            *([PagePart("next", "Next", commands=list(comparison.use))] if comparison.use else []),
        ],
        settings=comparison.settings,
    )


def cells(comparison: Comparison, line: ComparisonRow) -> list[str]:
    """Return a method's figures as text: clusters, measures, truth, traffic, time, finished runs."""
    values = {name: line.measures.get(name) for name in comparison.measures}
    values |= {name: line.truth.get(name) for name in comparison.truth}
    figures = {name: "–" if value is None else f"{value:.3f}" for name, value in values.items()}
    if line.error is not None and comparison.score in figures:
        figures[comparison.score] += f" ± {line.error:.3f}"
    return [
        span(line.clusters),
        *figures.values(),
        "–" if line.bytes is None else format_bytes(line.bytes),
        "–" if line.seconds is None else duration(line.seconds),
        f"{line.runs} of {comparison.seeds}",
    ]


def headings(comparison: Comparison) -> list[str]:
    """Return the column headings of the figures in `cells`."""
    return ["Clusters", *(TITLES[name] for name in (*comparison.measures, *comparison.truth)), "Moved", "Time", "Runs"]


def span(clusters: Sequence[int]) -> str:
    """Format numbers of clusters, from the fewest to the most."""
    if not clusters:
        return "–"
    return str(clusters[0]) if len(set(clusters)) == 1 else f"{min(clusters)}–{max(clusters)}"


def _table(comparison: Comparison) -> ResultTable:
    rows = []
    for line in comparison.lines:
        texts = cells(comparison, line)
        best = line.method == comparison.recommended
        row = [TableCell(text, verdict="best" if best and at == 1 else "") for at, text in enumerate(texts)]
        origin = "" if not line.runs else "given" if line.number is not None else "found"
        row[0] = TableCell(texts[0], beside="" if line.role == "baseline" else origin)
        if line.name in comparison.as_good and not best:
            row[1] = TableCell(texts[1], beside="about as good")
        rows.append((line.method, row))
    ranked = "agreement with the truth (ARI)" if comparison.by == "truth" else TITLES[comparison.score].lower()
    caption = (
        f"Ranked by {ranked}; the best first, the recommended one marked. Figures are means over the finished runs, "
        f"bytes and time those of one run. Behind ± stands the {ERRORS[comparison.family]}."
    )
    return ResultTable("All methods", caption, "Method", headings(comparison), rows)


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


def _bars(comparison: Comparison) -> Bars:
    name = comparison.score
    known = [line for line in comparison.lines if name in line.measures]
    return Bars(
        TITLES[name],
        f"{MEANINGS[name]} The recommended method stands out.",
        [line.method for line in known],
        [line.measures[name] for line in known],
        [line.method == comparison.recommended for line in known],
        "Method",
        errors=[line.error for line in known],
    )


def _notes(comparison: Comparison) -> list[str]:
    notes = [f"{methods}: {remark}." for remark, methods in remarks(comparison.lines).items()]
    notes += [f"{TITLES[name]}: {MEANINGS[name]}" for name in comparison.measures]
    if comparison.truth:
        notes.append("ARI and what follows it compare with the truth, which had no part in the ranking."
                     if comparison.by == "score" else "The truth was asked to choose.")  # fmt: skip
    return notes


def remarks(lines: Sequence[ComparisonRow], missing_only: bool = False) -> dict[str, str]:
    """Return the methods that each remark is about; with `missing_only` those without a finished run."""
    methods: dict[str, list[str]] = {}
    for line in lines:
        if line.remark and not (missing_only and line.runs):
            methods.setdefault(line.remark, []).append(line.method)
    return {remark: ", ".join(names) for remark, names in methods.items()}


def print_comparison(comparison: Comparison) -> None:
    """Print the table, the recommendation and the next command, with rules on a terminal only."""
    print(sentence_text(comparison.question))
    rows = [
        (f"{'*' if line.method == comparison.recommended else ' '} {line.name}", *cells(comparison, line), line.remark)
        for line in comparison.lines
    ]
    columns = ("Method", *headings(comparison), "Remark")
    print_table(rows, columns, left=(0, len(columns) - 1))
    sentences = [comparison.lead, *(f"Warning: {text}" for text in comparison.warnings)]
    for text in [*sentences, *comparison.doubts[len(comparison.warnings) :]]:
        print(sentence_text(text, elsewhere=118))
    for line in [*(f"  {command}" for command in comparison.use[:1]), f"Report: {comparison.out / PAGE}"]:
        print(line)
