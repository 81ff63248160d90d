"""Tables and sentences for curves that need no chart: few steps, or values that never change."""

from __future__ import annotations

from collections.abc import Sequence

from fedkin.report.chart_numbers import by_name, coloured, tip_lines
from fedkin.report.markup import element, text
from fedkin.report.numbers import plain, shown
from fedkin.report.result_tables import result_table
from fedkin.report.results_view import ResultTable, TableCell
from fedkin.report.timeline import NO_EVENTS, Curve, Timeline

MIN_STEPS = 4
"""Minimum number of steps for a curve; a line through fewer would suggest a trend."""


def is_short(curve: Curve) -> bool:
    """Return whether a curve has too few steps to be drawn."""
    return len(curve.x) < MIN_STEPS


def is_constant(curve: Curve) -> bool:
    """Return whether every series keeps one value and has no reference."""
    if curve.intervals or curve.reference or not curve.series:
        return False
    return all(None not in values and len(set(values)) == 1 for _, values in by_name(curve.series))


def step_table(curves: Sequence[Curve], timeline: Timeline = NO_EVENTS) -> str:
    """Write short curves as one table: a row per series and a column per step; an empty string without curves."""
    if not curves:
        return ""
    steps = sorted({step for curve in curves for step in curve.x})
    unit = curves[0].x_label
    phases = [timeline.phase(step) for step in steps]
    columns = [f"{unit} {plain(at)}{f', {phase}' if phase else ''}" for at, phase in zip(steps, phases, strict=True)]
    rows = [row for curve in curves for row in _rows(curve, steps)]
    caption = "Too few to draw a curve."
    return result_table(ResultTable("Numbers by " + unit, caption, "", columns, rows))


def constants(curves: Sequence[Curve]) -> str:
    """List the curves that never change, each with its value; an empty string without curves."""
    items = [element("li", text(_unchanged(curve))) for curve in curves]
    return element("ul", *items, class_="notes") if items else ""


def _rows(curve: Curve, steps: Sequence[float]) -> list[tuple[str, list[TableCell]]]:
    lines = tip_lines(curve, range(len(curve.x)))
    rows = []
    for at, (name, _) in enumerate(coloured(curve)):
        known = {step: own[at].removeprefix(f"{name}: ") for step, own in zip(curve.x, lines, strict=True)}
        cells = [TableCell(known.get(step, "–"), tip=curve.caption) for step in steps]
        title = name if name == curve.title or name.startswith(curve.title) else f"{curve.title}: {name}"
        rows.append((title, cells))
    return rows


def _unchanged(curve: Curve) -> str:
    """Describe a constant curve, such as "Purity: 0.400 in each of 10 rounds"."""
    values = [(name, shown(own[0], curve.unit)) for name, own in by_name(curve.series)]
    said = values[0][1] if len(values) == 1 else ", ".join(f"{name} {value}" for name, value in values)
    return f"{curve.title}: {said} in each of {len(curve.x)} {curve.x_label}s."
