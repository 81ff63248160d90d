"""Curves over the steps of a run, as inline SVG; the numbers lie folded beneath."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, pairwise

from fedkin.report.markup import element, folded, scrolling, short, text
from fedkin.report.numbers import finite, in_unit, nice_ticks, plain, shown, tick_labels
from fedkin.report.view import ALL_ALIKE, Band, Curve, Timeline

WIDTH, HEIGHT = 400.0, 216.0
TOP, RIGHT, BOTTOM = 16.0, 14.0, 40.0
MOST_STOPS = 120
MOST_DOTS = 40
LETTER = 5.4

Points = list[tuple[float, float]]


def line_chart(curve: Curve, timeline: Timeline = ALL_ALIKE) -> str:
    """A figure with the curve's lines; pointing at a step shows its values, and what happened then."""
    heading = element("figcaption", element("h3", text(curve.title)), element("p", text(curve.caption)))
    if not _values(curve):
        return element("figure", heading, element("p", "No values yet.", class_="empty"), class_="card")
    return element("figure", heading, _legend(curve), _drawing(curve, timeline), _numbers(curve), class_="card")


class _Frame:
    """Where a value lies in the drawing."""

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
        whole = all(float(x).is_integer() for x in curve.x)
        ticks = nice_ticks(self.first, self.last, count=7, whole=whole) if self.last > self.first else [self.first]
        self.x_ticks = [tick for tick in ticks if self.first <= tick <= self.last]
        self.x_labels = tick_labels(ticks, "number")[: len(ticks)] if len(ticks) > 1 else [plain(self.first)]
        self.x_labels = [label for tick, label in zip(ticks, self.x_labels, strict=True) if tick in self.x_ticks]

    def x(self, value: float) -> float:
        inner = WIDTH - RIGHT - self.left
        return self.left + inner * ((value - self.first) / (self.last - self.first) if self.last > self.first else 0.5)

    def y(self, value: float) -> float:
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - low) / (high - low)


def _drawing(curve: Curve, timeline: Timeline) -> str:
    frame = _Frame(curve)
    lines = "".join(_line(curve, frame, index, values) for index, (_, values) in enumerate(_series(curve)))
    return element(
        "svg", _bands(frame, timeline), _axes(curve, frame), _marks(frame, timeline), lines,
        _stops(curve, frame, timeline),
        class_="chart", viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", role="img", aria_label=_in_words(curve),
    )  # fmt: skip


def _bands(frame: _Frame, timeline: Timeline) -> str:
    """Phases, every second one shaded, the last one not; none where all of the curve is in one."""
    inside = [band for band in timeline.bands if band.first <= frame.last and band.last >= frame.first]
    return "".join(_band(frame, band, at % 2 == 1) for at, band in enumerate(reversed(inside))) if inside[1:] else ""


def _band(frame: _Frame, band: Band, shaded: bool) -> str:
    left, right = frame.x(max(band.first - 0.5, frame.first)), frame.x(min(band.last + 0.5, frame.last))
    parts = []
    if shaded:
        parts.append(element("rect", x=left, y=TOP, width=right - left, height=HEIGHT - BOTTOM - TOP, class_="band"))
    if LETTER * len(band.phase) <= right - left:
        parts.append(element("text", text(band.phase), x=(left + right) / 2, y=TOP - 6, class_="middle phase"))
    return "".join(parts)


def _marks(frame: _Frame, timeline: Timeline) -> str:
    inside = [mark for mark in timeline.marks if frame.first <= mark.step <= frame.last]
    return "".join(
        element(
            "path", d=f"M{short(frame.x(mark.step))} {short(TOP)}V{short(HEIGHT - BOTTOM)}",
            class_="mark dashed" if mark.dashed else "mark",
        )
        for mark in inside
    )  # fmt: skip


def _axes(curve: Curve, frame: _Frame) -> str:
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


def _line(curve: Curve, frame: _Frame, index: int, values: Sequence[float | None]) -> str:
    points = [None if v is None else (frame.x(x), frame.y(v)) for x, v in zip(curve.x, values, strict=True)]
    runs: list[Points] = [
        [point for point in run if point is not None]
        for missing, run in groupby(points, key=lambda p: p is None)
        if not missing
    ]
    path = "".join("M" + "L".join(f"{short(x)} {short(y)}" for x, y in run) for run in runs)
    dotted = runs if len(curve.x) <= MOST_DOTS else [run for run in runs if len(run) == 1]
    dots = "".join(element("circle", cx=x, cy=y, r=3.2) for run in dotted for x, y in run)
    return element("g", element("path", d=path), dots, class_=f"line s{index % 8}")


def _stops(curve: Curve, frame: _Frame, timeline: Timeline) -> str:
    """Invisible columns, one per step (fewer on long curves), that carry the values to show."""
    chosen = range(0, len(curve.x), math.ceil(len(curve.x) / MOST_STOPS))
    centres = [frame.x(curve.x[at]) for at in chosen]
    borders = [frame.left, *((a + b) / 2 for a, b in pairwise(centres)), WIDTH - RIGHT]
    parts = []
    for at, centre, start, stop in zip(chosen, centres, borders, borders[1:], strict=False):
        values = [f"{name}: {shown(series[at], curve.unit)}" for name, series in _series(curve)]
        step, after = curve.x[at], curve.x[at + chosen.step] if at + chosen.step < len(curve.x) else math.inf
        phase = f" ({timeline.phase(step)})" if timeline.phase(step) else ""
        happened = [mark.meaning for mark in timeline.marks if step <= mark.step < after]
        tip = "\n".join([f"{curve.x_label} {plain(step)}{phase}", *values, *happened])
        area = element("rect", x=start, y=TOP, width=max(stop - start, 0.0), height=HEIGHT - BOTTOM - TOP)
        cross = element("path", d=f"M{short(centre)} {short(TOP)}V{short(HEIGHT - BOTTOM)}")
        parts.append(element("g", cross, area, class_="stop", data_tip=tip))
    return "".join(parts)


def _legend(curve: Curve) -> str:
    """The last value of every series, with its line's colour and dash where there are several."""
    series = _series(curve)
    entries = [element("li", "last:")]
    for index, (name, values) in enumerate(series):
        last = next((value for value in reversed(values) if value is not None), None)
        line = element("path", d="M0 5H22")
        key = element("svg", line, class_=f"line s{index % 8}", viewBox="0 0 22 10", aria_hidden="true")
        named = key + text(name) if len(series) > 1 else ""
        entries.append(element("li", named, element("b", text(shown(last, curve.unit)))))
    return element("ul", *entries, class_="legend")


def _numbers(curve: Curve) -> str:
    series = _series(curve)
    heads = "".join(
        element("th", text(name), scope="col") for name in [curve.x_label, *(in_unit(n, curve.unit) for n, _ in series)]
    )
    rows = [
        element("tr", element("th", plain(x), scope="row"), *(element("td", plain(values[at])) for _, values in series))
        for at, x in enumerate(curve.x)
    ]
    table = element("table", element("thead", element("tr", heads)), element("tbody", *rows), class_="numbers")
    return folded("The numbers", scrolling(table, f"{curve.title}: the numbers"))


def _series(curve: Curve) -> list[tuple[str, list[float | None]]]:
    return [(name, [finite(value) for value in curve.series[name]]) for name in sorted(curve.series)]


def _values(curve: Curve) -> list[float]:
    return [value for _, values in _series(curve) for value in values if value is not None]


def _in_words(curve: Curve) -> str:
    sentences = []
    for name, values in _series(curve):
        known = [(x, value) for x, value in zip(curve.x, values, strict=True) if value is not None]
        if known:
            (x0, first), (x1, last) = known[0], known[-1]
            ends = f"{shown(first, curve.unit)} at {plain(x0)}, {shown(last, curve.unit)} at {plain(x1)}"
            sentences.append(f"{name}: {ends}")
    return f"{curve.title} by {curve.x_label}. " + "; ".join(sentences) + "."
