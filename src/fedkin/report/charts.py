"""Line charts over the steps of a run, and bar charts, as inline SVG, with the numbers in a folded table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from fedkin.report.figures import Bars, Curve, ResultTable, TableCell
from fedkin.report.markup import card, drawing, element, notes_list, numbers_below, short, shortened, text
from fedkin.report.numbers import finite, in_unit, nice_ticks, plain, shown, tick_labels

MIN_STEPS = 4
"""Minimum number of steps for a curve; a line through fewer would suggest a trend."""
WIDTH, HEIGHT = 400.0, 216.0
"""Units of a drawing, which is scaled to its card."""
TOP, RIGHT, BOTTOM = 16.0, WIDTH - 14, HEIGHT - 40
"""Edges of the area of a line chart; the left one depends on the labels."""
MAX_DOTS = 40
"""Steps up to which each has a dot."""

Values = list[float | None]
Interval = tuple[float, float]


class Line(NamedTuple):
    """Line of a chart: finite values by step or ``None``, their intervals, and a paper's values to compare with.

    A reference without a series of ours has its values in `paper` alone, and is `thin`.
    """

    name: str
    values: Values
    intervals: list[Interval | None]
    paper: Values | None
    thin: bool = False


def lines_of(curve: Curve) -> list[Line]:
    """Return the lines of a curve in the order of their colours: series by name, then references without a series."""
    nothing: list[None] = [None] * len(curve.x)
    references = {name: [finite(value) for value in values] for name, values in curve.reference.items()}
    lines = []
    for name, values in sorted(curve.series.items()):
        intervals = [
            None if ends is None or None in map(finite, ends) else ends for ends in curve.intervals.get(name, nothing)
        ]
        lines.append(Line(name, [finite(value) for value in values], intervals, references.get(name)))
    thin = sorted(references.keys() - curve.series.keys())
    return [*lines, *(Line(name, [*nothing], [*nothing], references[name], thin=True) for name in thin)]


def line_chart(curve: Curve) -> str:
    """Draw a curve as an HTML figure; a tooltip at each step shows its values and events."""
    lines = lines_of(curve)
    if not _numbers(lines):
        return card(curve.title, curve.caption, element("p", "No values yet.", class_="empty"))
    return card(
        curve.title, curve.caption, _legend(curve, lines), _curve_drawing(curve, lines), _number_table(curve, lines)
    )


def is_short(curve: Curve) -> bool:
    """Return whether a curve has too few steps to be drawn."""
    return len(curve.x) < MIN_STEPS


def is_constant(curve: Curve) -> bool:
    """Return whether every series keeps one value and has no reference."""
    if curve.intervals or curve.reference or not curve.series:
        return False
    return all(None not in line.values and len(set(line.values)) == 1 for line in lines_of(curve))


def step_table(curves: Sequence[Curve]) -> ResultTable:
    """Return short curves as one table: a row per series and a column per step."""
    unit = curves[0].x_label
    steps = sorted({step for curve in curves for step in curve.x})
    columns = [f"{unit} {plain(step)}" for step in steps]
    rows = []
    for curve in curves:
        for line in lines_of(curve):
            texts = {step: _in_words(curve, line, place) for place, step in enumerate(curve.x)}
            cells = [TableCell(texts.get(step, "–"), tip=curve.caption) for step in steps]
            rows.append((line.name if line.name.startswith(curve.title) else f"{curve.title}: {line.name}", cells))
    return ResultTable(f"Numbers by {unit}", "Too few to draw a curve.", "", columns, rows)


def constants(curves: Sequence[Curve]) -> str:
    """List the curves that never change, such as "Purity: 0.400 in each of 10 rounds"; empty without any."""
    items = []
    for curve in curves:
        values = [(line.name, shown(line.values[0], curve.unit)) for line in lines_of(curve)]
        in_words = values[0][1] if len(values) == 1 else ", ".join(f"{name} {value}" for name, value in values)
        items.append(f"{curve.title}: {in_words} in each of {len(curve.x)} {curve.x_label}s.")
    return notes_list(items) if items else ""


class _Frame:
    """Coordinates of a line chart: where steps and values lie in the drawing, and the ticks of both axes."""

    def __init__(self, curve: Curve, lines: Sequence[Line]) -> None:
        values = _numbers(lines)
        low, high = min(values), max(values)
        if curve.unit in ("count", "percent", "bytes"):
            low = min(low, 0.0)
        elif high - low < 0.02 * abs(high):  # the ticks of a flat line would be noise
            low, high = low - 0.02 * abs(high), high + 0.02 * abs(high)
        self.y_ticks = nice_ticks(low, high, whole=curve.unit == "count")
        self.y_labels = tick_labels(self.y_ticks, curve.unit)
        self.left = 14 + 6.6 * max(map(len, self.y_labels))
        self.first, self.last = min(curve.x), max(curve.x)
        steps = sorted(set(map(float, curve.x)))
        whole = all(step.is_integer() for step in steps)
        distance = min((self.x(b) - self.x(a) for a, b in pairwise(steps)), default=WIDTH)
        if len(steps) == 1 or (not whole and len(steps) <= 11 and distance >= 30):  # labels have room
            self.x_ticks = [(step, plain(step)) for step in steps]
        else:
            ticks = nice_ticks(self.first, self.last, count=7, whole=whole)
            labelled = zip(ticks, tick_labels(ticks, "number"), strict=True)
            self.x_ticks = [(tick, label) for tick, label in labelled if self.first <= tick <= self.last]

    def x(self, step: float) -> float:
        share = (step - self.first) / (self.last - self.first) if self.last > self.first else 0.5
        return self.left + (RIGHT - self.left) * share

    def y(self, value: float) -> float:
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return BOTTOM - (BOTTOM - TOP) * (value - low) / (high - low)


def _curve_drawing(curve: Curve, lines: Sequence[Line]) -> str:
    frame, dotted = _Frame(curve, lines), len(curve.x) <= MAX_DOTS
    intervals, ours, papers = [], [], []
    for colour, line in enumerate(lines):
        look = f"s{colour % 8}"
        intervals.append(_intervals(curve, frame, line, look))
        if not line.thin:
            runs = _runs(curve, frame, line.values)
            points = [point for run in runs if dotted or len(run) == 1 for point in run]
            dots = "".join(element("circle", cx=x, cy=y, r=3.2) for x, y in points)
            ours.append(element("g", element("path", d=_path(runs)), dots, class_=f"line {look}"))
        if line.paper is not None:  # a thin line with hollow squares
            runs = _runs(curve, frame, line.paper)
            points = [point for run in runs if dotted for point in run]
            squares = "".join(element("rect", x=x - 3.4, y=y - 3.4, width=6.8, height=6.8) for x, y in points)
            papers.append(element("g", element("path", d=_path(runs)), squares, class_=f"reference {look}"))
    marks = [
        element(
            "path", d=f"M{short(frame.x(mark.step))} {short(TOP)}V{short(BOTTOM)}",
            class_="mark dashed" if mark.dashed else "mark",
        )
        for mark in curve.marks
        if frame.first <= mark.step <= frame.last
    ]  # fmt: skip
    return drawing(
        "chart", HEIGHT, _curve_in_words(curve, lines), *_curve_axes(curve, frame), *marks,
        *intervals, *ours, *papers, *_stops(curve, frame, lines),
    )  # fmt: skip


def _curve_axes(curve: Curve, frame: _Frame) -> list[str]:
    parts = []
    for tick, label in zip(frame.y_ticks, frame.y_labels, strict=True):
        y = frame.y(tick)
        parts.append(element("path", d=f"M{short(frame.left)} {short(y)}H{short(RIGHT)}", class_="grid"))
        parts.append(element("text", text(label), x=frame.left - 7, y=y + 3.8, class_="end"))
    for tick, label in frame.x_ticks:
        parts.append(element("text", text(label), x=frame.x(tick), y=BOTTOM + 17, class_="middle"))
    middle = (frame.left + RIGHT) / 2
    return [*parts, element("text", text(curve.x_label), x=middle, y=HEIGHT - 5, class_="middle")]


def _runs(curve: Curve, frame: _Frame, values: Sequence[float | None]) -> list[list[tuple[float, float]]]:
    """Return the points of a line, split where values are missing."""
    points = [None if v is None else (frame.x(x), frame.y(v)) for x, v in zip(curve.x, values, strict=True)]
    runs = [list(run) for _, run in groupby(points, key=lambda point: point is None)]
    return [[point for point in run if point is not None] for run in runs if run[0] is not None]


def _path(runs: Sequence[Sequence[tuple[float, float]]]) -> str:
    return "".join("M" + "L".join(f"{short(x)} {short(y)}" for x, y in run) for run in runs)


def _intervals(curve: Curve, frame: _Frame, line: Line, look: str) -> str:
    """Draw the intervals of a series: a band over consecutive steps, an error bar at a single one."""
    lows = _runs(curve, frame, [ends and ends[0] for ends in line.intervals])
    highs = _runs(curve, frame, [ends and ends[1] for ends in line.intervals])
    bands, bars = "", ""
    for low, high in zip(lows, highs, strict=True):
        if len(low) > 1:
            bands += _path([[*low, *reversed(high)]]) + "z"
        else:
            bars += f"M{short(low[0][0])} {short(low[0][1])}V{short(high[0][1])}"
    parts = [element("path", d=bands, class_="between")] if bands else []
    parts += [element("path", d=bars, class_="bar-of-one")] if bars else []
    return element("g", *parts, class_=f"sure {look}") if parts else ""


def _stops(curve: Curve, frame: _Frame, lines: Sequence[Line]) -> list[str]:
    """Write the tooltips of a chart's steps, at most 120, with the places of their values."""
    every = math.ceil(len(curve.x) / 119)
    chosen = sorted({*range(0, len(curve.x), every), len(curve.x) - 1})
    parts = [element("g", element("path", d=f"M0 {short(TOP)}V{short(BOTTOM)}"), class_="guide")]
    for place, following in zip(chosen, [*chosen[1:], None], strict=True):
        step, after = curve.x[place], math.inf if following is None else curve.x[following]
        values = [f"{line.name}: {_in_words(curve, line, place)}" for line in lines]
        events = [mark.meaning for mark in curve.marks if step <= mark.step < after]
        tip = "\n".join([f"{curve.x_label} {plain(step)}", *values, *events])
        drawn = [(line.paper if line.thin and line.paper else line.values)[place] for line in lines]
        heights = ",".join("" if value is None else short(frame.y(value)) for value in drawn)
        parts.append(element("g", class_="stop", data_x=short(frame.x(step)), data_y=heights, data_tip=tip))
    return parts


def _in_words(curve: Curve, line: Line, place: int) -> str:
    """Return a value with its interval and the paper's value beside it."""
    paper = None if line.paper is None else line.paper[place]
    if line.thin:
        return shown(paper, curve.unit)
    interval = line.intervals[place]
    between = f" ({shown(interval[0], curve.unit)} to {shown(interval[1], curve.unit)})" if interval else ""
    beside = "" if paper is None else f"; paper {shown(paper, curve.unit)}"
    return f"{shown(line.values[place], curve.unit)}{between}{beside}"


def _numbers(lines: Sequence[Line]) -> list[float]:
    """Return all values, references and ends of intervals, which the y axis must cover."""
    ends = [end for line in lines for interval in line.intervals if interval for end in interval]
    values = [value for line in lines for value in (*line.values, *(line.paper or ())) if value is not None]
    return values + ends


def _legend(curve: Curve, lines: Sequence[Line]) -> str:
    """Write the legend: the series with their last values, then references and intervals."""
    stroke = element("path", d="M0 5H22")
    square = stroke + element("rect", x=7.6, y=1.6, width=6.8, height=6.8)
    ours = [line for line in lines if not line.thin]
    entries = [element("li", "last:")] if ours else []
    for colour, line in enumerate(ours):
        last = next((value for value in reversed(line.values) if value is not None), None)
        key = _key(f"line s{colour % 8}", stroke) + text(line.name)
        named = len(ours) > 1 or curve.reference
        entries.append(element("li", key if named else "", element("b", text(shown(last, curve.unit)))))
    if any(line.paper is not None for line in ours):
        entries.append(element("li", _key("reference alone", square), "paper"))
    for colour, line in enumerate(lines[len(ours) :], len(ours)):
        entries.append(element("li", _key(f"reference s{colour % 8}", square), text(line.name)))
    if any(interval for line in lines for interval in line.intervals):
        area = element("rect", x=0, y=0, width=22, height=10, class_="between")
        entries.append(element("li", _key("sure alone", area), "interval"))
    return element("ul", *entries, class_="legend")


def _key(look: str, *content: str) -> str:
    return element("svg", *content, class_=look, viewBox="0 0 22 10", aria_hidden="true")


def _number_table(curve: Curve, lines: Sequence[Line]) -> str:
    """Write all numbers of a curve as a folded table: a row per step, a column per line and interval end."""
    columns: list[tuple[str, Sequence[float | None]]] = []
    for line in lines:
        name = in_unit(line.name, curve.unit)
        if line.thin:
            columns.append((name, line.paper or ()))
            continue
        columns.append((name, line.values))
        if any(line.intervals):
            columns.append((f"{line.name}, from", [ends and ends[0] for ends in line.intervals]))
            columns.append((f"{line.name}, to", [ends and ends[1] for ends in line.intervals]))
        if line.paper is not None:
            columns.append((f"{line.name}, paper", line.paper))
    rows = [(plain(x), *(plain(column[place]) for _, column in columns)) for place, x in enumerate(curve.x)]
    return numbers_below(curve.title, [curve.x_label, *(name for name, _ in columns)], rows)


def _curve_in_words(curve: Curve, lines: Sequence[Line]) -> str:
    """Describe each line by its first and its last value."""
    sentences = []
    for line in lines:
        for values in (line.values, line.paper or ()):
            points = [(x, value) for x, value in zip(curve.x, values, strict=False) if value is not None]
            if points:
                (x0, first), (x1, last) = points[0], points[-1]
                ends = f"{shown(first, curve.unit)} at {plain(x0)}, {shown(last, curve.unit)} at {plain(x1)}"
                sentences.append(f"{line.name}: {ends}")
    return f"{curve.title} by {curve.x_label}. {'; '.join(sentences)}."


# Bars lie, one below the other, each between its name and its value, and are thin where there are many.

_LETTER = 7.0  # on a phone, where letters are largest beside the drawing


def bar_chart(bars: Bars) -> str:
    """Draw a bar chart as an HTML figure; a tooltip shows each number."""
    if not bars.values:
        return card(bars.title, bars.caption, element("p", "No values.", class_="empty"))
    columns: list[Sequence[str]] = [list(bars.names), [plain(value) for value in bars.values]]
    columns += [[plain(error) for error in bars.errors]] if bars.errors else []
    heads = [bars.x_label, bars.title, *(["error"] if bars.errors else [])]
    numbers = numbers_below(bars.title, heads, zip(*columns, strict=True))
    return card(bars.title, bars.caption, _bars_drawing(bars), numbers)


def _bars_drawing(bars: Bars) -> str:
    count = len(bars.values)
    row = min(20.0, max(4.0, 360 / count))
    written = range(0, count, math.ceil(12 / row))  # a name needs a height of 12
    names = [shortened(name, 26) for name in bars.names]
    values = [_bar_value(bars, place) for place in range(count)]
    errors = [error or 0.0 for error in bars.errors or [0.0] * count]
    ends = [0.0, *([] if bars.line is None else [bars.line])]
    ends += [value + sign * error for value, error in zip(bars.values, errors, strict=True) for sign in (-1, 1)]
    low, high = min(ends), max(ends)
    room = _LETTER * max(map(len, values)) + 8
    left, right = 8 + _LETTER * max(map(len, names)) + (room if low < 0 else 0), WIDTH - room

    def x(value: float) -> float:
        return left + (right - left) * (value - low) / ((high - low) or 1.0)

    top, bottom = 16.0, 16 + row * count
    parts = [
        element("text", text(bars.x_label), x=0, y=8),
        element("path", d=f"M{short(x(0.0))} {short(top)}V{short(bottom)}", class_="grid"),
    ]
    for place, (value, error) in enumerate(zip(bars.values, errors, strict=True)):
        upper, middle = top + row * place, top + row * (place + 0.5)
        start, stop = sorted((x(value), x(0.0)))
        thickness = 0.6 * row
        look = "bar strong" if bars.strong[place] else "bar"
        parts.append(
            element("rect", x=start, y=middle - thickness / 2, width=stop - start, height=thickness, class_=look)
        )
        if error:
            whisker = f"M{short(x(value - error))} {short(middle)}H{short(x(value + error))}"
            parts.append(element("path", d=whisker, class_="whisker"))
        if place in written:
            side, beside = ("in end", x(value - error) - 5) if value < 0 else ("in", x(value + error) + 5)
            parts.append(element("text", text(names[place]), x=0, y=middle + 3.2))
            parts.append(element("text", text(values[place]), x=beside, y=middle + 3.2, class_=side))
        tip = f"{bars.x_label}: {bars.names[place]}\n{values[place]}"
        parts.append(element("rect", x=0, y=upper, width=WIDTH, height=row, class_="row", data_tip=tip))
    if bars.line is not None:
        side = "end name" if x(bars.line) > WIDTH / 2 else "name"
        line = f"M{short(x(bars.line))} {short(top)}V{short(bottom)}"
        parts.append(element("path", d=line, class_="mark dashed"))
        parts.append(element("text", text(bars.line_name), x=x(bars.line), y=bottom + 12, class_=side))
    span = f"from {shown(min(bars.values), 'number')} to {shown(max(bars.values), 'number')}"
    line_name = "" if bars.line is None else f"; {bars.line_name}"
    words = f"{bars.title}: {count} bars {span}, {sum(bars.strong)} of them stand out{line_name}."
    return drawing("bars", bottom + (18 if bars.line is not None else 4), words, *parts)


def _bar_value(bars: Bars, place: int) -> str:
    """Format a value and its error, such as ``'0.947 ± 0.012'``."""
    error = bars.errors[place] if bars.errors else None
    return shown(bars.values[place], "number") if error is None else f"{bars.values[place]:.3f} ± {error:.3f}"
