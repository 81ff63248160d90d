"""The page that shows a comparison."""

from __future__ import annotations

from fedkin.experiment.words import format_bytes
from fedkin.report import Bars, PagePart, PageView, ResultTable, TableCell
from fedkin.studies.compare.comparison import Comparison, ComparisonRow
from fedkin.studies.compare.comparison_words import about_as_good, lead, seconds
from fedkin.studies.compare.ranking import NEAR

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


def page_of(comparison: Comparison) -> PageView:
    """The page of a comparison."""
    found = comparison.recommended
    lead_text = lead(f"`{found}`" if found else None, comparison.reason, comparison.confident)
    warned = [f"Warning: {each}" for each in comparison.warnings]
    said = [lead_text, *warned, *([about_as_good(comparison.as_good)] if comparison.as_good else [])]
    return PageView(
        title=f"Which {comparison.family} belong together: methods compared",
        lead=f"{' '.join(said)} {comparison.question}",
        summary=_summary(comparison),
        parts=[
            PagePart(
                "methods", "Methods", tables=[_table(comparison)], bars=[_bars(comparison)], notes=_notes(comparison)
            ),
            *([PagePart("data", "The data", notes=comparison.notes)] if comparison.notes else []),
            *([PagePart("next", "Next", commands=comparison.use)] if comparison.use else []),
        ],
        settings=comparison.settings,
    )


def cells(comparison: Comparison, line: ComparisonRow) -> list[str]:
    """A method's figures as text: clusters, measures, truth, bytes, seconds, finished runs."""
    values = {name: line.measures.get(name) for name in comparison.measures}
    values |= {name: line.truth.get(name) for name in comparison.truth}
    figures = {name: "–" if value is None else f"{value:.3f}" for name, value in values.items()}
    if line.spread is not None and "cohesion" in figures:
        figures["cohesion"] += f" ± {line.spread:.3f}"
    return [
        _span(line.clusters),
        *figures.values(),
        "–" if line.bytes is None else format_bytes(line.bytes),
        "–" if line.seconds is None else seconds(line.seconds),
        f"{line.runs} of {comparison.seeds}",
    ]


def headings(comparison: Comparison) -> list[str]:
    """What stands above these figures."""
    return ["Clusters", *(TITLES[name] for name in (*comparison.measures, *comparison.truth)), "Moved", "Time", "Runs"]


def _summary(comparison: Comparison) -> list[tuple[str, str, str]]:
    finished = sum(line.runs > 0 for line in comparison.lines)
    how = "chosen by the truth" if comparison.by == "truth" else "chosen without the truth"
    doubt = "" if comparison.confident or not comparison.recommended else ", without confidence"
    rows = [
        ("Recommended", comparison.recommended or "–", how + doubt),
        ("Methods", f"{finished} of {len(comparison.lines)}", "finished at least once"),
        ("Time", f"{seconds(comparison.spent)} of {seconds(comparison.budget)}", "spent of the budget, this time"),
    ]  # fmt: skip
    if comparison.truth_gap is not None:
        rows.append(("Behind the best", f"{comparison.truth_gap:.3f}", "in agreement with the truth (ARI)"))
    return rows


def _table(comparison: Comparison) -> ResultTable:
    rows = []
    for line in comparison.lines:
        texts = cells(comparison, line)
        best = line.method == comparison.recommended
        row = [TableCell(text, verdict="best" if best and at == 1 else "") for at, text in enumerate(texts)]
        row[0] = TableCell(texts[0], beside="given" if line.number is not None else "found" if line.runs else "")
        rows.append((line.method, [*row, TableCell(line.remark or "")]))
    ranked = "agreement with the truth (ARI)" if comparison.by == "truth" else TITLES[comparison.score].lower()
    caption = (
        f"Ranked by {ranked}; the best first, the recommended one marked. Figures are means over the finished runs, "
        "bytes and time those of one run."
    )
    return ResultTable("All methods", caption, "Method", [*headings(comparison), "Remark"], rows)


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
    )


def _notes(comparison: Comparison) -> list[str]:
    notes = [f"{TITLES[name]}: {MEANINGS[name]}" for name in comparison.measures]
    notes += [f"{line.method} was tried with {', '.join(map(str, line.tried))} clusters; the best is shown."
             for line in comparison.lines if line.tried]  # fmt: skip
    if comparison.truth:
        notes.append("ARI and what follows it compare with the truth, which had no part in the ranking."
                     if comparison.by == "score" else "The truth was asked to choose.")  # fmt: skip
    return notes


def _span(clusters: tuple[int, ...]) -> str:
    if not clusters:
        return "–"
    return str(clusters[0]) if len(set(clusters)) == 1 else f"{min(clusters)}–{max(clusters)}"
