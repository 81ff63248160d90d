"""How the numbers of a run are told to people: on the report's page and on the terminal.

Methods and their evaluation name numbers as programs do. What is known here gets a title, a unit and an explanation,
in order of importance; anything else is shown under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedkin.report.numbers import shown
from fedkin.report.view import Unit

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Measure:
    """Words for one number.

    Attributes
    ----------
    title, meaning : str
        What it is called, and what it says as a phrase without a full stop.
    unit : Unit
        How it is written; with "percent" the number itself is a share.
    total : str
        Name of the number it is a part of, such as the isolated clusters of all.
    beside : str
        Name of a number that is drawn in the same chart, and told in the same breath.
    headline, chart : bool
        Whether it is worth a card at the top of the page and a line on the terminal; worth a chart.
    """

    title: str
    meaning: str
    unit: Unit = "number"
    total: str = ""
    beside: str = ""
    headline: bool = True
    chart: bool = True


MEASURES = {
    "groups": Measure(
        "Groups found", "over all sites; their number was found, not given", "count", beside="target", chart=False
    ),
    "communities": Measure(
        "Communities", "sets of kin local clusters of different sites", "count", beside="target", headline=False
    ),
    "isolated": Measure("Left alone", "local clusters that found no kin at any other site", "count", total="clusters"),
    "accuracy": Measure(
        "Accuracy (ACC)", "share of samples in a local cluster of their own class, mean over sites", "share"
    ),
    "ari": Measure("Agreement (ARI)", "of all samples' groups with their classes: 1 is the same, 0 is chance", "share"),
    "wrong": Measure(
        "Wrongly joined", "share of the associations that join local clusters of different classes", "percent"
    ),
    "active": Measure(
        "Active sites", "sites that still refined their clusters; the others rest", "count", headline=False
    ),
    "agreement": Measure(
        "Unmoved samples", "samples of the active sites that kept their local cluster", "percent", headline=False
    ),
    "nmi": Measure("Agreement (NMI)", "mutual information of groups and classes", "share", headline=False, chart=False),
    "target": Measure("True classes", "classes that two or more sites hold", "count", headline=False, chart=False),
    "clusters": Measure("Local clusters", "of all sites together", "count", headline=False, chart=False),
    "associations": Measure("Associations", "pairs of kin local clusters", "count", headline=False, chart=False),
    "cut": Measure("Cut", "largest average share of losses within a group", headline=False, chart=False),
}


def measures(*lines: Line) -> dict[str, Measure]:
    """Words for every single number in any of these records, the known ones first."""
    named = {name: line for line in lines for name in (*line["metrics"], *line["values"])}
    single = [name for name in named if any(number(line, name) is not None for line in lines)]
    known = {name: measure for name, measure in MEASURES.items() if name in single}
    return known | {name: _unknown(name, lines) for name in single if name not in known}


def number(line: Line, name: str) -> float | None:
    """The single number of this name in a record; a metric wins over a value that the method reports."""
    value = line["metrics"].get(name, line["values"].get(name))
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def scaled(line: Line, name: str, measure: Measure) -> float | None:
    """A record's number as `Measure.unit` speaks of it."""
    value = number(line, name)
    return value if value is None or measure.unit != "percent" else 100 * value


def written(line: Line, name: str, measure: Measure) -> str:
    """A record's number with its unit and, where it is a part, the whole; a dash where there is none."""
    text, whole = shown(scaled(line, name, measure), measure.unit), number(line, measure.total)
    return text if whole is None else f"{text} of {shown(whole, measure.unit)}"


def size(count: float) -> str:
    """Bytes with three significant digits."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} PB"


def _unknown(name: str, lines: Sequence[Line]) -> Measure:
    is_metric = any(name in line["metrics"] for line in lines)
    is_whole = all(isinstance(number(line, name), int | None) for line in lines)
    meaning = "compared with the hidden truth" if is_metric else "as the method reports it"
    return Measure(name.replace("_", " ").capitalize(), meaning, "count" if is_whole else "number")
