"""Line charts over the steps of a run as inline SVG, with the numbers in a folded table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, pairwise

from fedkin.report.chart_numbers import (
    Interval,
    by_name,
    coloured,
    end_values,
    in_words,
    intervals,
    number_table,
    tip_lines,
)
from fedkin.report.markup import card, drawing, element, short, text
from fedkin.report.numbers import nice_ticks, plain, tick_labels
from fedkin.report.timeline import NO_EVENTS, Band, Curve, Timeline

WIDTH, HEIGHT = 400.0, 216.0
TOP, RIGHT, BOTTOM = 16.0, 14.0, 40.0
MAX_STOPS = 120
MAX_DOTS = 40
LETTER = 5.4
MAX_NAMED, NARROWEST = 11, 30.0
"""Steps that are not whole numbers get a tick each if they are at most so many and at least so far apart."""

CurvePoints = list[tuple[float, float]]


def line_chart(curve: Curve, timeline: Timeline = NO_EVENTS) -> str:
    """Draw a curve as an HTML figure; a tooltip at each step shows its values and events."""
    if not _values(curve):
        return card(curve.title, curve.caption, element("p", "No values yet.", class_="empty"))
    return card(curve.title, curve.caption, end_values(curve), _drawing(curve, timeline), number_table(curve))


class _CurveFrame:
    """Coordinates of a line chart: where steps and values lie in the drawing."""

    def __init__(self, curve: Curve) -> None:
        values = _values(curve)
        low, high = min(values), max(values)
        if curve.unit in ("count", "percent", "bytes"):
            low = min(low, 0.0)
        elif high - low < 0.02 * abs(high):
            low, high = low - 0.02 * abs(high), high + 0.02 * abs(high)
        self.y_ticks = nice_ticks(low, high, whole=curve.unit == "count")
        self.y_labels = tick_labels(self.y_ticks, curve.unit)
        self.left = 14 + 6.6 * max(len(label) for label in self.y_labels)
        self.first, self.last = min(curve.x), max(curve.x)
        self.x_ticks, self.x_labels = self._steps(sorted(set(map(float, curve.x))))

    def _steps(self, steps: Sequence[float]) -> tuple[list[float], list[str]]:
        """Return the ticks of the x axis and their labels: all steps if few and not whole, else round numbers."""
        whole = all(step.is_integer() for step in steps)
        distance = min((self.x(b) - self.x(a) for a, b in pairwise(steps)), default=WIDTH)
        if len(steps) == 1 or (not whole and len(steps) <= MAX_NAMED and distance >= NARROWEST):
            return list(steps), [plain(step) for step in steps]
        ticks = nice_ticks(self.first, self.last, count=7, whole=whole)
        named = zip(ticks, tick_labels(ticks, "number"), strict=True)
        inside = [(tick, label) for tick, label in named if self.first <= tick <= self.last]
        return [tick for tick, _ in inside], [label for _, label in inside]

    def x(self, value: float) -> float:
        inner = WIDTH - RIGHT - self.left
        return self.left + inner * ((value - self.first) / (self.last - self.first) if self.last > self.first else 0.5)

    def y(self, value: float) -> float:
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - low) / (high - low)


def _drawing(curve: Curve, timeline: Timeline) -> str:
    frame = _CurveFrame(curve)
    colours = {name: index for index, (name, _) in enumerate(coloured(curve))}
    beneath = "".join(_sure(curve, frame, colours[name], intervals(curve, name)) for name, _ in by_name(curve.series))
    compared = "".join(_reference(curve, frame, colours[name], values) for name, values in by_name(curve.reference))
    lines = "".join(_line(curve, frame, index, values) for index, (_, values) in enumerate(by_name(curve.series)))
    return drawing(
        "chart", HEIGHT, in_words(curve), _bands(frame, timeline), _axes(curve, frame), _marks(frame, timeline),
        beneath, lines, compared, _stops(curve, frame, timeline),
    )  # fmt: skip


def _bands(frame: _CurveFrame, timeline: Timeline) -> str:
    """Draw the phases of a run, every second one shaded; nothing if the whole curve lies in one phase."""
    inside = [band for band in timeline.bands if band.first <= frame.last and band.last >= frame.first]
    return "".join(_band(frame, band, at % 2 == 1) for at, band in enumerate(reversed(inside))) if inside[1:] else ""


def _band(frame: _CurveFrame, band: Band, shaded: bool) -> str:
    left, right = frame.x(max(band.first - 0.5, frame.first)), frame.x(min(band.last + 0.5, frame.last))
    parts = []
    if shaded:
        parts.append(element("rect", x=left, y=TOP, width=right - left, height=HEIGHT - BOTTOM - TOP, class_="band"))
    if LETTER * len(band.phase) <= right - left:
        parts.append(element("text", text(band.phase), x=(left + right) / 2, y=TOP - 6, class_="middle phase"))
    return "".join(parts)


def _marks(frame: _CurveFrame, timeline: Timeline) -> str:
    inside = [mark for mark in timeline.marks if frame.first <= mark.step <= frame.last]
    return "".join(
        element(
            "path", d=f"M{short(frame.x(mark.step))} {short(TOP)}V{short(HEIGHT - BOTTOM)}",
            class_="mark dashed" if mark.dashed else "mark",
        )
        for mark in inside
    )  # fmt: skip


def _axes(curve: Curve, frame: _CurveFrame) -> str:
    parts = []
    for tick, label in zip(frame.y_ticks, frame.y_labels, strict=True):
        y = frame.y(tick)
        parts.append(element("path", d=f"M{short(frame.left)} {short(y)}H{short(WIDTH - RIGHT)}", class_="grid"))
        parts.append(element("text", text(label), x=frame.left - 7, y=y + 3.8, class_="end"))
    for tick, label in zip(frame.x_ticks, frame.x_labels, strict=True):
        parts.append(element("text", text(label), x=frame.x(tick), y=HEIGHT - BOTTOM + 17, class_="middle"))
    middle = (frame.left + WIDTH - RIGHT) / 2
    parts.append(element("text", text(curve.x_label), x=middle, y=HEIGHT - 5, class_="middle"))
    return "".join(parts)


def _runs(curve: Curve, frame: _CurveFrame, values: Sequence[float | None]) -> list[CurvePoints]:
    """Return the points of a line, split where values are missing."""
    points = [None if v is None else (frame.x(x), frame.y(v)) for x, v in zip(curve.x, values, strict=True)]
    return [
        [point for point in run if point is not None]
        for missing, run in groupby(points, key=lambda p: p is None)
        if not missing
    ]


def _path(runs: Sequence[CurvePoints]) -> str:
    return "".join("M" + "L".join(f"{short(x)} {short(y)}" for x, y in run) for run in runs)


def _line(curve: Curve, frame: _CurveFrame, index: int, values: Sequence[float | None]) -> str:
    runs = _runs(curve, frame, values)
    dotted = runs if len(curve.x) <= MAX_DOTS else [run for run in runs if len(run) == 1]
    dots = "".join(element("circle", cx=x, cy=y, r=3.2) for run in dotted for x, y in run)
    return element("g", element("path", d=_path(runs)), dots, class_=f"line s{index % 8}")


def _reference(curve: Curve, frame: _CurveFrame, index: int, values: Sequence[float | None]) -> str:
    """Draw a reference as a thin line with hollow squares, in the colour of its series if it has one."""
    runs = _runs(curve, frame, values)
    marks = "".join(
        element("rect", x=x - 3.4, y=y - 3.4, width=6.8, height=6.8)
        for run in (runs if len(curve.x) <= MAX_DOTS else [])
        for x, y in run
    )
    return element("g", element("path", d=_path(runs)), marks, class_=f"reference s{index % 8}")


def _sure(curve: Curve, frame: _CurveFrame, index: int, known: Sequence[Interval | None]) -> str:
    """Draw the intervals of a series: a band over consecutive steps, an error bar at a single one."""
    lows = _runs(curve, frame, [None if each is None else each[0] for each in known])
    highs = _runs(curve, frame, [None if each is None else each[1] for each in known])
    bands, bars = [], []
    for low, high in zip(lows, highs, strict=True):
        if len(low) > 1:
            bands.append(_path([[*low, *reversed(high)]]) + "z")
        else:
            bars.append(f"M{short(low[0][0])} {short(low[0][1])}V{short(high[0][1])}")
    parts = [element("path", d="".join(bands), class_="between")] if bands else []
    parts += [element("path", d="".join(bars), class_="bar-of-one")] if bars else []
    return element("g", *parts, class_=f"sure s{index % 8}") if parts else ""


def _stops(curve: Curve, frame: _CurveFrame, timeline: Timeline) -> str:
    """Write the tooltips of a chart's steps, at most `MAX_STOPS`, with the places of their values."""
    every = math.ceil(len(curve.x) / (MAX_STOPS - 1))
    chosen = sorted({*range(0, len(curve.x), every), len(curve.x) - 1})
    guide = element("path", d=f"M0 {short(TOP)}V{short(HEIGHT - BOTTOM)}")
    parts = [element("g", guide, class_="guide")]
    shown = coloured(curve)
    for at, following, lines in zip(chosen, [*chosen[1:], None], tip_lines(curve, chosen), strict=True):
        step, after = curve.x[at], math.inf if following is None else curve.x[following]
        phase = f" ({timeline.phase(step)})" if timeline.phase(step) else ""
        happened = [mark.meaning for mark in timeline.marks if step <= mark.step < after]
        tip = "\n".join([f"{curve.x_label} {plain(step)}{phase}", *lines, *happened])
        heights = ("" if values[at] is None else short(frame.y(values[at])) for _, values in shown)
        parts.append(element("g", class_="stop", data_x=short(frame.x(step)), data_y=",".join(heights), data_tip=tip))
    return "".join(parts)


def _values(curve: Curve) -> list[float]:
    """Return all finite values, references and interval ends of a curve, which its y axis must cover."""
    named = [values for _, values in (*by_name(curve.series), *by_name(curve.reference))]
    ends = [end for name in curve.intervals for each in intervals(curve, name) if each is not None for end in each]
    return [value for values in named for value in values if value is not None] + ends
