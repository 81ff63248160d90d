"""Numbers of a line chart as text: legend, tooltips, description, and a table to copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fedkin.report.markup import element, numbers_below, text
from fedkin.report.numbers import finite, in_unit, plain, shown
from fedkin.report.timeline import Curve, Unit

Interval = tuple[float, float]
Lines = list[tuple[str, list[float | None]]]
"""Names and values by step."""


def by_name(named: Mapping[str, Sequence[float | None]]) -> Lines:
    """Return names and values of series or references, sorted by name; values that are not finite become ``None``."""
    return [(name, [finite(value) for value in named[name]]) for name in sorted(named)]


def coloured(curve: Curve) -> Lines:
    """Return the lines that need a colour of their own: all series, then references without a series."""
    return by_name(curve.series) + [line for line in by_name(curve.reference) if line[0] not in curve.series]


def intervals(curve: Curve, name: str) -> list[Interval | None]:
    """Return the intervals of series `name`; ``None`` where there is none or an end is not finite."""
    known = curve.intervals.get(name, [None] * len(curve.x))
    return [None if each is None or None in map(finite, each) else each for each in known]


def tip_lines(curve: Curve, chosen: Iterable[int]) -> list[list[str]]:
    """Return the lines of the tooltip at each chosen step (counted from 0), one line per `coloured` series."""
    parts = [(name, values, intervals(curve, name), _compared(curve, name)) for name, values in coloured(curve)]
    return [
        [
            f"{name}: {shown(values[at], curve.unit)}{_between(known[at], curve.unit)}{compared[at]}"
            for name, values, known, compared in parts
        ]
        for at in chosen
    ]


def _between(interval: Interval | None, unit: Unit) -> str:
    return "" if interval is None else f" ({shown(interval[0], unit)} to {shown(interval[1], unit)})"


def _compared(curve: Curve, name: str) -> list[str]:
    """Return the reference value of series `name` at every step as text; an empty list without a reference."""
    values = curve.reference.get(name) if name in curve.series else None
    known = [None] * len(curve.x) if values is None else [finite(value) for value in values]
    return ["" if each is None else f"; paper {shown(each, curve.unit)}" for each in known]


def end_values(curve: Curve) -> str:
    """Write the legend: the series with their last values, then references and intervals."""
    named = by_name(curve.series)
    entries = [element("li", "last:")] if named else []
    for index, (name, values) in enumerate(named):
        last = next((value for value in reversed(values) if value is not None), None)
        line = element("path", d="M0 5H22")
        key = _key(f"line s{index % 8}", line) + text(name) if len(named) > 1 or curve.reference else ""
        entries.append(element("li", key, element("b", text(shown(last, curve.unit)))))
    mark = element("path", d="M0 5H22") + element("rect", x=7.6, y=1.6, width=6.8, height=6.8)
    if any(name in curve.series for name in curve.reference):
        entries.append(element("li", _key("reference alone", mark), "paper"))
    for index, (name, _) in enumerate(coloured(curve)[len(named) :], len(named)):
        entries.append(element("li", _key(f"reference s{index % 8}", mark), text(name)))
    if any(each is not None for name in curve.intervals for each in intervals(curve, name)):
        area = element("rect", x=0, y=0, width=22, height=10, class_="between")
        entries.append(element("li", _key("sure alone", area), "interval"))
    return element("ul", *entries, class_="legend")


def _key(look: str, *content: str) -> str:
    return element("svg", *content, class_=look, viewBox="0 0 22 10", aria_hidden="true")


def number_table(curve: Curve) -> str:
    """Write all numbers of a curve as a folded table: a row per step, a column per line and interval end."""
    columns = _columns(curve)
    rows = [(plain(x), *(plain(column[at]) for _, column in columns)) for at, x in enumerate(curve.x)]
    heads = [curve.x_label, *(name for name, _ in columns)]
    return numbers_below(curve.title, heads, rows)


def _columns(curve: Curve) -> list[tuple[str, Sequence[float | None]]]:
    columns: list[tuple[str, Sequence[float | None]]] = []
    for name, values in by_name(curve.series):
        columns.append((in_unit(name, curve.unit), values))
        if any(intervals(curve, name)):
            known = intervals(curve, name)
            columns.append((f"{name}, from", [None if each is None else each[0] for each in known]))
            columns.append((f"{name}, to", [None if each is None else each[1] for each in known]))
        if name in curve.reference:
            columns.append((f"{name}, paper", curve.reference[name]))
    others = coloured(curve)[len(curve.series) :]
    return columns + [(in_unit(name, curve.unit), values) for name, values in others]


def in_words(curve: Curve) -> str:
    """Describe each line by its first and its last value."""
    compared = [
        (f"{name}, paper" if name in curve.series else name, values) for name, values in by_name(curve.reference)
    ]
    sentences = []
    for name, values in [*by_name(curve.series), *compared]:
        known = [(x, value) for x, value in zip(curve.x, values, strict=True) if value is not None]
        if known:
            (x0, first), (x1, last) = known[0], known[-1]
            ends = f"{shown(first, curve.unit)} at {plain(x0)}, {shown(last, curve.unit)} at {plain(x1)}"
            sentences.append(f"{name}: {ends}")
    return f"{curve.title} by {curve.x_label}. " + "; ".join(sentences) + "."
