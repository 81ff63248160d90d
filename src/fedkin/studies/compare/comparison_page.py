"""Page of a comparison."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from fedkin.experiment.run_folder import REPORT
from fedkin.report import Bars, PagePart, PageView, ResultTable, TableCell
from fedkin.report.numbers import format_bytes, pluralize
from fedkin.studies.compare.better_than_chance import TIMES
from fedkin.studies.compare.candidates import method_named
from fedkin.studies.compare.comparison import Comparison, ComparisonRow
from fedkin.studies.compare.comparison_words import ORDER, about_as_good, lead
from fedkin.studies.compare.ranking import NEAR
from fedkin.studies.time_budget import duration, exact_duration

TITLES = {
    "cohesion": "Cohesion",
    "silhouette": "Silhouette",
    "consensus": "Consensus",
    "stability": "Stability",
    "accuracy": "Accuracy",
    "ari": "ARI",
    "nmi": "NMI",
    "ami": "AMI",
    "pooled_accuracy": "ACC",
    "purity": "Purity",
}
MEANINGS = {
    "cohesion": "How surely near samples share a cluster, above what clusters of points without structure reach, and "
    "how many clusters there are, with its standard error over halves of the samples. Ranks methods.",
    "accuracy": "Mean over clients of their cluster's model on their own test samples. Ranks methods.",
    "stability": "Mean agreement (ARI) of the clusters of every two seeds, 1 for the same.",
    "silhouette": "How much nearer samples are to their own cluster than to the next; it likes few, round clusters.",
    "consensus": "Mean agreement (ARI) with the clusters of every other method.",
}


ERRORS = {
    "samples": "over halves of the samples: what lies closer than that has no order",
    "clients": "over clients; the recommendation compares methods client by client, which tells more apart",
}


def page_of(comparison: Comparison) -> PageView:
    """Build the page of a comparison."""
    found = comparison.recommended
    lead_text = lead(f"`{found}`" if found else None, comparison.reason, comparison.confident)
    doubts = [*comparison.warnings, *([about_as_good(comparison.as_good)] if comparison.as_good else [])]
    return PageView(
        title=f"Which {comparison.family} belong together: methods compared",
        lead=f"{lead_text}\n{comparison.question}",
        summary=_summary(comparison),
        parts=[
            *([PagePart("doubts", "Before you rely on it", notes=doubts)] if doubts else []),
            PagePart(
                "methods", "Methods", tables=[_table(comparison)], bars=[_bars(comparison)], notes=_notes(comparison)
            ),
            PagePart("leaves", "What leaves a client", tables=[_leaving(comparison)]),
            *([PagePart("data", "The data", notes=comparison.notes)] if comparison.notes else []),
            *([PagePart("next", "Next", commands=comparison.use)] if comparison.use else []),
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
        _span(line.clusters),
        *figures.values(),
        "–" if line.bytes is None else format_bytes(line.bytes),
        "–" if line.seconds is None else duration(line.seconds),
        f"{line.runs} of {comparison.seeds}",
    ]


def table_notes(comparison: Comparison) -> list[str]:
    """Return sentences on the order of the table, where it is not plain, and on methods with runs that are missing."""
    known = [value for line in comparison.lines[1:] if (value := line.measures.get(comparison.score)) is not None]
    is_plain = comparison.family == "clients" or comparison.by == "truth" or known == sorted(known, reverse=True)
    notes = [] if is_plain else [ORDER]
    some = sum(0 < line.runs < comparison.seeds for line in comparison.lines)
    if some:
        seeds = pluralize(comparison.seeds, "run")
        notes.append(f"Of {pluralize(some, 'method')} fewer than {seeds} finished, see Runs.")
    return notes


def headings(comparison: Comparison) -> list[str]:
    """Return the column headings of the figures in `cells`."""
    return ["Clusters", *(TITLES[name] for name in (*comparison.measures, *comparison.truth)), "Moved", "Time", "Runs"]


def _summary(comparison: Comparison) -> list[tuple[str, str, str]]:
    finished = sum(line.runs > 0 for line in comparison.lines)
    how = "chosen by the truth" if comparison.by == "truth" else "chosen without the truth"
    doubt = "" if comparison.confident or not comparison.recommended else ", without confidence"
    budget = exact_duration(comparison.budget)
    rows = [
        ("Recommended", comparison.recommended or "–", how + doubt),
        ("Methods", f"{finished} of {len(comparison.lines)}", "finished at least once"),
        ("Time", f"{duration(comparison.spent)} of {budget}", "spent of the budget, this time"),
    ]  # fmt: skip
    if comparison.chance_p is not None:
        said = "yes" if comparison.better_than_chance else "no"
        rows.append(("Better than chance", said, f"p = {comparison.chance_p:.2f}, by {TIMES} tables without clusters"))
    if comparison.truth_gap is not None:
        rows.append(("Behind the best", f"{comparison.truth_gap:.3f}", "in agreement with the truth (ARI)"))
    return rows


def _table(comparison: Comparison) -> ResultTable:
    rows = []
    for line in comparison.lines:
        texts = cells(comparison, line)
        best = line.method == comparison.recommended
        row = [TableCell(text, verdict="best" if best and at == 1 else "") for at, text in enumerate(texts)]
        row[0] = TableCell(texts[0], beside=_origin(line))
        if line.name in comparison.as_good and not best:
            row[1] = TableCell(texts[1], beside="about as good")
        rows.append((line.method, row))
    ranked = "agreement with the truth (ARI)" if comparison.by == "truth" else TITLES[comparison.score].lower()
    caption = (
        f"Ranked by {ranked}; the best first, the recommended one marked. Figures are means over the finished runs, "
        "bytes and time those of one run. A name leads to the page of its first run. "
        f"Behind ± stands a standard error {ERRORS[comparison.family]}."
    )
    links = {line.method: page for line in comparison.lines if (page := _run_page(comparison, line))}
    return ResultTable("All methods", caption, "Method", headings(comparison), rows, links)


def _origin(line: ComparisonRow) -> str:
    """Return whether the number of clusters was given or found; empty for methods that form or have no clusters."""
    if not line.runs:
        return ""
    if line.number is not None:
        return "given"
    return "found" if line.role != "baseline" else ""


def _run_page(comparison: Comparison, line: ComparisonRow) -> str:
    """Return the link from the comparison's page to that of a method's first run; empty without one."""
    if not line.folder or not (Path(line.folder) / REPORT).is_file():
        return ""
    return quote((Path(line.folder) / REPORT).relative_to(comparison.out).as_posix())


def _leaving(comparison: Comparison) -> ResultTable:
    """Build the table of what a client sends by each method, and of its traffic."""
    rows = []
    for line in comparison.lines:
        method = method_named(line.method)
        warned = method.moves_data or method.copies_data
        sent = TableCell(_sentence(method.sends), beside="samples, or copies, leave" if warned else "")
        rows.append((line.method, [sent, TableCell("–" if line.bytes is None else format_bytes(line.bytes))]))
    caption = (
        "What the server receives, beside shapes, minima, maxima and counts for scaling; and the bytes sent and "
        "received by all clients together. The privacy page of the documentation says what each can reveal."
    )
    return ResultTable("By method", caption, "Method", ["A client sends", "Moved"], rows)


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}." if words else "Not said by the method."


def _bars(comparison: Comparison) -> Bars:
    name = comparison.score
    known = [line for line in comparison.lines if name in line.measures]
    return Bars(
        TITLES[name],
        f"{MEANINGS[name]} The recommended method stands out; one that is up to {NEAR:g} behind and finds much the "
        "same clusters is as good."
        if comparison.family == "samples"
        else f"{MEANINGS[name]} The recommended method stands out.",
        [line.method for line in known],
        [line.measures[name] for line in known],
        [line.method == comparison.recommended for line in known],
        "Method",
        errors=[line.error for line in known],
    )


def _notes(comparison: Comparison) -> list[str]:
    said = _alike(comparison, lambda line: line.remark)
    notes = [f"{methods}: {remark}." for remark, methods in said.items()]
    notes += table_notes(comparison)
    tried = _alike(comparison, lambda line: ", ".join(map(str, line.tried)))
    notes += [f"{methods} tried {numbers} clusters; the best is shown." for numbers, methods in tried.items()]
    notes += [f"{TITLES[name]}: {MEANINGS[name]}" for name in comparison.measures]
    if comparison.truth:
        notes.append("ARI and what follows it compare with the truth, which had no part in the ranking."
                     if comparison.by == "score" else "The truth was asked to choose.")  # fmt: skip
    return notes


def _alike(comparison: Comparison, said: Callable[[ComparisonRow], str]) -> dict[str, str]:
    """Group the methods by a text about each, without those whose text is empty."""
    methods: dict[str, list[str]] = {}
    for line in comparison.lines:
        if text := said(line):
            methods.setdefault(text, []).append(line.method)
    return {text: ", ".join(named) for text, named in methods.items()}


def _span(clusters: tuple[int, ...]) -> str:
    if not clusters:
        return "–"
    return str(clusters[0]) if len(set(clusters)) == 1 else f"{min(clusters)}–{max(clusters)}"
