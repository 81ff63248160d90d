"""Line charts over the steps of a run, and bar charts, as inline SVG, with the numbers in a folded table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise

from fedkin.report.figures import Bars, Curve, ResultTable, TableCell
from fedkin.report.markup import card, drawing, element, notes_list, numbers_below, short, shortened, text
from fedkin.report.numbers import finite, in_unit, nice_ticks, plain, shown, tick_labels

Interval = tuple[float, float]
Lines = list[tuple[str, list[float | None]]]
"""Names and values by step."""

MIN_STEPS = 4
"""Minimum number of steps for a curve; a line through fewer would suggest a trend."""
WIDTH, HEIGHT = 400.0, 216.0
TOP, RIGHT, BOTTOM = 16.0, 14.0, 40.0
MAX_STOPS, MAX_DOTS = 120, 40
"""Tooltips of a chart, and steps up to which each has a dot."""
LETTER = 5.4
MAX_NAMED, NARROWEST = 11, 30.0
"""Steps that are not whole numbers get a tick each if they are at most so many and at least so far apart."""


def line_chart(curve: Curve) -> str:
    """Draw a curve as an HTML figure; a tooltip at each step shows its values and events."""
    if not _values(curve):
        return card(curve.title, curve.caption, element("p", "No values yet.", class_="empty"))
    return card(curve.title, curve.caption, _legend(curve), _curve_drawing(curve), _number_table(curve))


def is_short(curve: Curve) -> bool:
    """Return whether a curve has too few steps to be drawn."""
    return len(curve.x) < MIN_STEPS


def is_constant(curve: Curve) -> bool:
    """Return whether every series keeps one value and has no reference."""
    if curve.intervals or curve.reference or not curve.series:
        return False
    return all(None not in values and len(set(values)) == 1 for _, values in _by_name(curve.series))


def step_table(curves: Sequence[Curve]) -> ResultTable:
    """Return short curves as one table: a row per series and a column per step."""
    steps = sorted({step for curve in curves for step in curve.x})
    phases = [curves[0].timeline.phase(step) for step in steps]
    columns = [
        f"{curves[0].x_label} {plain(at)}{f', {phase}' if phase else ''}"
        for at, phase in zip(steps, phases, strict=True)
    ]
    rows = []
    for curve in curves:
        for name, values in _coloured(curve):
            texts = {x: _value_in_words(curve, name, values[at], at) for at, x in enumerate(curve.x)}
            cells = [TableCell(texts.get(step, "–"), tip=curve.caption) for step in steps]
            title = name if name == curve.title or name.startswith(curve.title) else f"{curve.title}: {name}"
            rows.append((title, cells))
    return ResultTable("Numbers by " + curves[0].x_label, "Too few to draw a curve.", "", columns, rows)


def constants(curves: Sequence[Curve]) -> str:
    """List the curves that never change, such as "Purity: 0.400 in each of 10 rounds"; empty without any."""
    items = []
    for curve in curves:
        values = [(name, shown(own[0], curve.unit)) for name, own in _by_name(curve.series)]
        in_words = values[0][1] if len(values) == 1 else ", ".join(f"{name} {value}" for name, value in values)
        items.append(f"{curve.title}: {in_words} in each of {len(curve.x)} {curve.x_label}s.")
    return notes_list(items) if items else ""


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


def _curve_drawing(curve: Curve) -> str:
    frame = _CurveFrame(curve)
    colours = {name: index for index, (name, _) in enumerate(_coloured(curve))}
    beneath = "".join(_sure(curve, frame, colours[name], _intervals(curve, name)) for name, _ in _by_name(curve.series))
    compared = "".join(_reference(curve, frame, colours[name], values) for name, values in _by_name(curve.reference))
    lines = "".join(_line(curve, frame, index, values) for index, (_, values) in enumerate(_by_name(curve.series)))
    marks = "".join(
        element(
            "path", d=f"M{short(frame.x(mark.step))} {short(TOP)}V{short(HEIGHT - BOTTOM)}",
            class_="mark dashed" if mark.dashed else "mark",
        )
        for mark in curve.timeline.marks
        if frame.first <= mark.step <= frame.last
    )  # fmt: skip
    return drawing(
        "chart", HEIGHT, _curve_in_words(curve), _bands(curve, frame), _curve_axes(curve, frame), marks, beneath, lines,
        compared, _stops(curve, frame),
    )  # fmt: skip


def _bands(curve: Curve, frame: _CurveFrame) -> str:
    """Draw the phases of a run, every second one shaded; nothing if the whole curve lies in one phase."""
    inside = [band for band in curve.timeline.bands if band.first <= frame.last and band.last >= frame.first]
    parts = []
    for at, band in enumerate(reversed(inside) if inside[1:] else ()):
        left, right = frame.x(max(band.first - 0.5, frame.first)), frame.x(min(band.last + 0.5, frame.last))
        if at % 2:
            box = {"x": left, "y": TOP, "width": right - left, "height": HEIGHT - BOTTOM - TOP}
            parts.append(element("rect", **box, class_="band"))
        if LETTER * len(band.phase) <= right - left:
            parts.append(element("text", text(band.phase), x=(left + right) / 2, y=TOP - 6, class_="middle phase"))
    return "".join(parts)


def _curve_axes(curve: Curve, frame: _CurveFrame) -> str:
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


def _runs(curve: Curve, frame: _CurveFrame, values: Sequence[float | None]) -> list[list[tuple[float, float]]]:
    """Return the points of a line, split where values are missing."""
    points = [None if v is None else (frame.x(x), frame.y(v)) for x, v in zip(curve.x, values, strict=True)]
    return [
        [point for point in run if point is not None]
        for missing, run in groupby(points, key=lambda p: p is None)
        if not missing
    ]


def _path(runs: Sequence[Sequence[tuple[float, float]]]) -> str:
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


def _stops(curve: Curve, frame: _CurveFrame) -> str:
    """Write the tooltips of a chart's steps, at most `MAX_STOPS`, with the places of their values."""
    every = math.ceil(len(curve.x) / (MAX_STOPS - 1))
    chosen = sorted({*range(0, len(curve.x), every), len(curve.x) - 1})
    guide = element("path", d=f"M0 {short(TOP)}V{short(HEIGHT - BOTTOM)}")
    parts = [element("g", guide, class_="guide")]
    coloured = _coloured(curve)
    for at, following in zip(chosen, [*chosen[1:], None], strict=True):
        step, after = curve.x[at], math.inf if following is None else curve.x[following]
        phase = f" ({curve.timeline.phase(step)})" if curve.timeline.phase(step) else ""
        lines = [f"{name}: {_value_in_words(curve, name, values[at], at)}" for name, values in coloured]
        happened = [mark.meaning for mark in curve.timeline.marks if step <= mark.step < after]
        tip = "\n".join([f"{curve.x_label} {plain(step)}{phase}", *lines, *happened])
        heights = ("" if values[at] is None else short(frame.y(values[at])) for _, values in coloured)
        parts.append(element("g", class_="stop", data_x=short(frame.x(step)), data_y=",".join(heights), data_tip=tip))
    return "".join(parts)


def _value_in_words(curve: Curve, name: str, value: float | None, at: int) -> str:
    """Return a value with its interval and the paper's value beside it."""
    interval = _intervals(curve, name)[at]
    between = f" ({shown(interval[0], curve.unit)} to {shown(interval[1], curve.unit)})" if interval else ""
    paper = finite(curve.reference[name][at]) if name in curve.series and name in curve.reference else None
    return f"{shown(value, curve.unit)}{between}{'' if paper is None else f'; paper {shown(paper, curve.unit)}'}"


def _values(curve: Curve) -> list[float]:
    """Return all finite values, references and interval ends of a curve, which its y axis must cover."""
    named = [values for _, values in (*_by_name(curve.series), *_by_name(curve.reference))]
    ends = [end for name in curve.intervals for each in _intervals(curve, name) if each is not None for end in each]
    return [value for values in named for value in values if value is not None] + ends


def _by_name(named: Mapping[str, Sequence[float | None]]) -> Lines:
    """Return names and values of series or references, sorted by name; values that are not finite become ``None``."""
    return [(name, [finite(value) for value in named[name]]) for name in sorted(named)]


def _coloured(curve: Curve) -> Lines:
    """Return the lines that need a colour of their own: all series, then references without a series."""
    return _by_name(curve.series) + [line for line in _by_name(curve.reference) if line[0] not in curve.series]


def _intervals(curve: Curve, name: str) -> list[Interval | None]:
    """Return the intervals of series `name`; ``None`` where there is none or an end is not finite."""
    known = curve.intervals.get(name, [None] * len(curve.x))
    return [None if each is None or None in map(finite, each) else each for each in known]


def _legend(curve: Curve) -> str:
    """Write the legend: the series with their last values, then references and intervals."""
    named = _by_name(curve.series)
    entries = [element("li", "last:")] if named else []
    for index, (name, values) in enumerate(named):
        last = next((value for value in reversed(values) if value is not None), None)
        key = _key(f"line s{index % 8}", element("path", d="M0 5H22")) + text(name)
        entries.append(
            element("li", key if len(named) > 1 or curve.reference else "", element("b", text(shown(last, curve.unit))))
        )
    mark = element("path", d="M0 5H22") + element("rect", x=7.6, y=1.6, width=6.8, height=6.8)
    if any(name in curve.series for name in curve.reference):
        entries.append(element("li", _key("reference alone", mark), "paper"))
    for index, (name, _) in enumerate(_coloured(curve)[len(named) :], len(named)):
        entries.append(element("li", _key(f"reference s{index % 8}", mark), text(name)))
    if any(each is not None for name in curve.intervals for each in _intervals(curve, name)):
        area = element("rect", x=0, y=0, width=22, height=10, class_="between")
        entries.append(element("li", _key("sure alone", area), "interval"))
    return element("ul", *entries, class_="legend")


def _key(look: str, *content: str) -> str:
    return element("svg", *content, class_=look, viewBox="0 0 22 10", aria_hidden="true")


def _number_table(curve: Curve) -> str:
    """Write all numbers of a curve as a folded table: a row per step, a column per line and interval end."""
    columns: list[tuple[str, Sequence[float | None]]] = []
    for name, values in _by_name(curve.series):
        columns.append((in_unit(name, curve.unit), values))
        if any(known := _intervals(curve, name)):
            columns.append((f"{name}, from", [each and each[0] for each in known]))
            columns.append((f"{name}, to", [each and each[1] for each in known]))
        if name in curve.reference:
            columns.append((f"{name}, paper", curve.reference[name]))
    columns += [(in_unit(name, curve.unit), values) for name, values in _coloured(curve)[len(curve.series) :]]
    rows = [(plain(x), *(plain(column[at]) for _, column in columns)) for at, x in enumerate(curve.x)]
    return numbers_below(curve.title, [curve.x_label, *(name for name, _ in columns)], rows)


def _curve_in_words(curve: Curve) -> str:
    """Describe each line by its first and its last value."""
    sentences = []
    for name, values in [*_by_name(curve.series), *_by_name(curve.reference)]:
        known = [(x, value) for x, value in zip(curve.x, values, strict=True) if value is not None]
        if known:
            (x0, first), (x1, last) = known[0], known[-1]
            ends = f"{shown(first, curve.unit)} at {plain(x0)}, {shown(last, curve.unit)} at {plain(x1)}"
            sentences.append(f"{name}: {ends}")
    return f"{curve.title} by {curve.x_label}. " + "; ".join(sentences) + "."


# Bar charts: upright or, for long names, lying.

BAR_HEIGHT, BAR_BOTTOM, BAR_RIGHT = 200.0, 40.0, 8.0
MAX_BARS_NAMED = 20
BAR_LETTER, LONGEST_NAME = 7.0, 26
WIDEST, ROW, THICKNESS = 26.0, 22.0, 12.0


def bar_chart(bars: Bars) -> str:
    """Draw a bar chart as an HTML figure; a tooltip shows each number."""
    if not bars.values:
        return card(bars.title, bars.caption, element("p", "No values.", class_="empty"))
    slot = (WIDTH - BAR_RIGHT) / len(bars.values)
    overlap = len(bars.names) <= MAX_BARS_NAMED and BAR_LETTER * max(map(len, bars.names)) > slot
    columns: list[Sequence[str]] = [list(bars.names), [plain(value) for value in bars.values]]
    columns += [[plain(error) for error in bars.errors]] if bars.errors else []
    heads = [bars.x_label, bars.title, *(["error"] if bars.errors else [])]
    numbers = numbers_below(bars.title, heads, zip(*columns, strict=True))
    return card(bars.title, bars.caption, _lying(bars) if overlap else _upright(bars), numbers)


def _whisker(bars: Bars, at: int) -> tuple[float, float]:
    """Return the ends of a value's error bar."""
    error = (bars.errors[at] if bars.errors else None) or 0.0
    return bars.values[at] - error, bars.values[at] + error


def _extent(bars: Bars) -> tuple[float, float]:
    """Return the least and the greatest number that the drawing has to show."""
    ends = [0.0, *([] if bars.line is None else [bars.line])]
    ends += [end for at in range(len(bars.values)) for end in _whisker(bars, at)]
    return min(ends), max(ends)


def _upright(bars: Bars) -> str:
    ticks = nice_ticks(*_extent(bars), count=6)
    labels = tick_labels(ticks, "number")
    left, bottom = 12 + 6.6 * max(map(len, labels)), BAR_HEIGHT - BAR_BOTTOM
    slot = (WIDTH - BAR_RIGHT - left) / len(bars.values)
    width = min(0.72 * slot, WIDEST)

    def y(value: float) -> float:
        return bottom - (bottom - TOP) * (value - ticks[0]) / (ticks[-1] - ticks[0])

    parts = []
    for tick, label in zip(ticks, labels, strict=True):
        parts.append(element("path", d=f"M{short(left)} {short(y(tick))}H{short(WIDTH - BAR_RIGHT)}", class_="grid"))
        parts.append(element("text", text(label), x=left - 7, y=y(tick) + 3.2, class_="end"))
    named = range(0, len(bars.names), math.ceil(len(bars.names) / MAX_BARS_NAMED))
    for at, value in enumerate(bars.values):
        middle = left + slot * (at + 0.5)
        if at in named:
            parts.append(element("text", text(bars.names[at]), x=middle, y=bottom + 14, class_="middle"))
        top, base = sorted((y(value), y(0.0)))
        low, high = _whisker(bars, at)
        parts += [
            element("rect", x=middle - width / 2, y=top, width=width, height=base - top, class_=_look(bars, at)),
            _error_mark(middle, middle, y(low), y(high)),
            element(
                "rect", x=middle - slot / 2, y=TOP, width=slot, height=bottom - TOP, class_="row",
                data_tip=_tip(bars, at),
            ),
        ]  # fmt: skip
    middle = (left + WIDTH - BAR_RIGHT) / 2
    parts.append(element("text", text(bars.x_label), x=middle, y=BAR_HEIGHT - 8, class_="middle"))
    if bars.line is not None:
        at_line = y(bars.line)
        line = f"M{short(left)} {short(at_line)}H{short(WIDTH - BAR_RIGHT)}"
        parts.append(element("path", d=line, class_="mark dashed"))
        parts.append(element("text", text(bars.line_name), x=WIDTH - BAR_RIGHT, y=at_line - 5, class_="end name"))
    return drawing("bars", BAR_HEIGHT, _bars_in_words(bars), *parts)


def _lying(bars: Bars) -> str:
    """Draw horizontal bars, one below the other, each between its name and its value."""
    names = [shortened(name, LONGEST_NAME) for name in bars.names]
    values = [_bar_value(bars, at) for at in range(len(bars.values))]
    low, high = _extent(bars)
    room = BAR_LETTER * max(map(len, values))
    left, right = 8 + BAR_LETTER * max(map(len, names)) + (8 + room if low < 0 else 0), WIDTH - 8 - room

    def x(value: float) -> float:
        return left + (right - left) * (value - low) / ((high - low) or 1.0)

    bottom = TOP + ROW * len(bars.values)
    parts = [element("path", d=f"M{short(x(0.0))} {short(TOP)}V{short(bottom)}", class_="grid")]
    if bars.line is not None:
        parts.append(element("path", d=f"M{short(x(bars.line))} {short(TOP)}V{short(bottom)}", class_="mark dashed"))
        side = "end name" if x(bars.line) > WIDTH / 2 else "name"
        parts.append(element("text", text(bars.line_name), x=x(bars.line), y=bottom + 13, class_=side))
    for at, value in enumerate(bars.values):
        top, base = TOP + ROW * at, TOP + ROW * (at + 0.5) + 3.4
        start, stop = sorted((x(value), x(0.0)))
        low_end, high_end = _whisker(bars, at)
        side, beside = ("in end", x(low_end) - 5) if value < 0 else ("in", x(high_end) + 5)
        upper = top + (ROW - THICKNESS) / 2
        parts += [
            element("text", text(names[at]), x=0, y=base),
            element("rect", x=start, y=upper, width=stop - start, height=THICKNESS, class_=_look(bars, at)),
            _error_mark(x(low_end), x(high_end), base - 3.4, base - 3.4),
            element("text", text(values[at]), x=beside, y=base, class_=side),
            element("rect", x=0, y=top, width=WIDTH, height=ROW, class_="row", data_tip=_tip(bars, at)),
        ]
    return drawing("bars", bottom + (20 if bars.line is not None else 4), _bars_in_words(bars), *parts)


def _look(bars: Bars, at: int) -> str:
    return "bar strong" if bars.strong[at] else "bar"


def _error_mark(left: float, right: float, low: float, high: float) -> str:
    """Draw an error bar between two points; return an empty string if both are the same."""
    if (left, low) == (right, high):
        return ""
    return element("path", d=f"M{short(left)} {short(low)}L{short(right)} {short(high)}", class_="whisker")


def _bar_value(bars: Bars, at: int) -> str:
    """Format a value and its error, such as ``'0.947 ± 0.012'``."""
    error = bars.errors[at] if bars.errors else None
    return shown(bars.values[at], "number") if error is None else f"{bars.values[at]:.3f} ± {error:.3f}"


def _tip(bars: Bars, at: int) -> str:
    return f"{bars.x_label}: {bars.names[at]}\n{_bar_value(bars, at)}"


def _bars_in_words(bars: Bars) -> str:
    ends = f"from {shown(min(bars.values), 'number')} to {shown(max(bars.values), 'number')}"
    line = "" if bars.line is None else f"; {bars.line_name}"
    return f"{bars.title}: {len(bars.values)} bars {ends}, {sum(bars.strong)} of them stand out{line}."
