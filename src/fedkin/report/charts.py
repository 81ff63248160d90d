"""Charts over the steps of a run as inline SVG, with their numbers in a table below."""

from __future__ import annotations

import math
from itertools import groupby
from typing import NamedTuple

from fedkin.report.figures import Curve, Series
from fedkin.report.markup import WIDTH, Drawing, element, figure, numbers_below, short, text
from fedkin.report.numbers import finite, nice_ticks, plain, shown, tick_labels

HEIGHT = 216.0
TOP, RIGHT, BOTTOM = 16.0, WIDTH - 14, HEIGHT - 40  # of the area of lines; its left edge depends on the labels


class Axis(NamedTuple):
    """Places in a drawing, from `start` to `end`, of values from `low` to `high`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.start + (self.end - self.start) * share


def line_chart(curve: Curve) -> str:
    """Draw a curve as an HTML figure; a tooltip at each step shows its values and events."""
    lines = {name: [*map(finite, values)] for name, values in sorted(curve.series.items())}
    values = [value for line in lines.values() for value in line if value is not None]
    if not values:
        return figure(curve.title, curve.caption, element("p", "No values yet.", class_="empty"))
    low, high = min(values), max(values)
    if curve.unit in ("count", "percent", "bytes"):
        low = min(low, 0.0)
    elif high - low < 0.02 * abs(high):  # the ticks of a flat line would be noise
        low, high = low - 0.02 * abs(high), high + 0.02 * abs(high)
    ticks = nice_ticks(low, high, whole=curve.unit == "count")
    labels = tick_labels(ticks, curve.unit)
    x_start, first, last = 14 + 6.6 * max(map(len, labels)), min(curve.x), max(curve.x)
    x, y = Axis(first, last, x_start, RIGHT), Axis(ticks[0], ticks[-1], BOTTOM, TOP)
    drawing = Drawing("chart")
    for tick, label in zip(ticks, labels, strict=True):
        drawing.line(x_start, y(tick), RIGHT, y(tick), "grid")
        drawing.text(x_start - 7, y(tick) + 3.8, label, "end")
    ticks = nice_ticks(first, last, count=7, whole=all(float(step).is_integer() for step in curve.x))
    for tick, label in zip(ticks, tick_labels(ticks, "number"), strict=True):
        if first <= tick <= last:
            drawing.text(x(tick), BOTTOM + 17, label, "middle")
    drawing.text((x_start + RIGHT) / 2, HEIGHT - 5, curve.x_label, "middle")
    for mark in curve.marks:
        if first <= mark.step <= last:
            drawing.line(x(mark.step), TOP, x(mark.step), BOTTOM, "mark")
    drawing.parts += [_line(curve, line, colour, x, y) for colour, line in enumerate(lines.values())]
    drawing.parts += _stops(curve, lines, x, y)
    ends = {name: shown(next((v for v in reversed(line) if v is not None), None), curve.unit)
            for name, line in lines.items()}  # fmt: skip
    words = ", ".join(f"{name} {end}" for name, end in ends.items())
    stroke = element("path", d="M0 5H22")
    entries = [element("li", "last:")]
    for colour, (name, end) in enumerate(ends.items()):
        key = element("svg", stroke, class_=f"line s{colour % 8}", viewBox="0 0 22 10", aria_hidden="true") + text(name)
        entries.append(element("li", key if len(lines) > 1 else "", element("b", end)))
    legend = element("ul", *entries, class_="legend")
    unit = {"bytes": " (bytes)", "percent": " (%)"}.get(curve.unit, "")
    rows = [(plain(step), *map(plain, values)) for step, *values in zip(curve.x, *lines.values(), strict=True)]
    numbers = numbers_below(curve.title, [curve.x_label, *(name + unit for name in lines)], rows)
    svg = drawing.write(HEIGHT, f"{curve.title} by {curve.x_label}; last {words}.")
    return figure(curve.title, curve.caption, legend, svg, numbers)


def _line(curve: Curve, line: Series, colour: int, x: Axis, y: Axis) -> str:
    """Draw a line, split where values are missing, with a dot at each step unless there are many."""
    points = [None if value is None else (x(step), y(value)) for step, value in zip(curve.x, line, strict=True)]
    runs = [[point for point in run if point] for drawn, run in groupby(points, key=bool) if drawn]
    path = "".join("M" + "L".join(f"{short(px)} {short(py)}" for px, py in run) for run in runs)
    dots = [
        element("circle", cx=px, cy=py, r=3.2) for run in runs if len(curve.x) <= 40 or len(run) == 1 for px, py in run
    ]
    return element("g", element("path", d=path), *dots, class_=f"line s{colour % 8}")


def _stops(curve: Curve, lines: dict[str, list[float | None]], x: Axis, y: Axis) -> list[str]:
    """Write the tooltips of a chart's steps, at most 120, with the places and colours of their values."""
    every = math.ceil(len(curve.x) / 119)
    chosen = sorted({*range(0, len(curve.x), every), len(curve.x) - 1})
    stops = [element("g", element("path", d=f"M0 {short(TOP)}V{short(BOTTOM)}"), class_="guide")]
    for index, following in zip(chosen, [*chosen[1:], None], strict=True):
        step, after = curve.x[index], math.inf if following is None else curve.x[following]
        values = [f"{name}: {shown(line[index], curve.unit)}" for name, line in lines.items()]
        events = [mark.meaning for mark in curve.marks if step <= mark.step < after]
        tip = "\n".join([f"{curve.x_label} {plain(step)}", *values, *events])
        heights = [(line[index], colour % 8) for colour, line in enumerate(lines.values())]
        drawn = ",".join("" if value is None else f"{short(y(value))} s{colour}" for value, colour in heights)
        stops.append(element("g", class_="stop", data_x=short(x(step)), data_y=drawn, data_tip=tip))
    return stops
