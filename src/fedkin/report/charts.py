"""Charts over the steps of a run, as lines or a lane per client, and bar charts, as inline SVG with a table beside."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from fedkin.report import markup
from fedkin.report.figures import Bars, ClientClusters, Curve, ResultTable, TableCell
from fedkin.report.markup import WIDTH, Drawing, element, figure, numbers_below, short, shortened, text
from fedkin.report.numbers import finite, nice_ticks, plain, shown, tick_labels

MIN_STEPS = 4
"""Minimum number of steps for a curve; a line through fewer would suggest a trend."""
HEIGHT = 216.0
TOP, RIGHT, BOTTOM = 16.0, WIDTH - 14, HEIGHT - 40
"""Edges of the area of a line chart; the left one depends on the labels."""

Interval = tuple[float, float]
Point = tuple[float, float]


class Axis(NamedTuple):
    """Places in a drawing, from `start` to `end`, of values from `low` to `high`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.start + (self.end - self.start) * share


class Line(NamedTuple):
    """Line of a chart: finite values by step or ``None``, their intervals, and whether they are a paper's."""

    name: str
    values: list[float | None]
    intervals: list[Interval | None]
    colour: int
    is_reference: bool


def lines_of(curve: Curve) -> list[Line]:
    """Return the series by name, then the references, each in the colour of its series or one of its own."""
    names = [*sorted(curve.series), *sorted(curve.reference.keys() - curve.series.keys())]
    nothing: list[None] = [None] * len(curve.x)
    lines = []
    for name, values in sorted(curve.series.items()):
        ends = [
            None if pair is None or None in map(finite, pair) else pair for pair in curve.intervals.get(name, nothing)
        ]
        lines.append(Line(name, [*map(finite, values)], ends, names.index(name), False))
    for name, values in sorted(curve.reference.items()):
        title = f"{name}, paper" if name in curve.series else name
        lines.append(Line(title, [*map(finite, values)], [*nothing], names.index(name), True))
    return lines


def line_chart(curve: Curve) -> str:
    """Draw a curve as an HTML figure; a tooltip at each step shows its values and events."""
    lines = lines_of(curve)
    values = [value for line in lines for value in line.values if value is not None]
    values += [end for line in lines for interval in line.intervals if interval for end in interval]
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
    for line in lines:
        drawing.parts.append(_band(curve, line, x, y))
    for line in lines:
        drawing.parts.append(_line(curve, line, x, y))
    drawing.parts += _stops(curve, lines, x, y)
    ends = ", ".join(f"{line.name} {_last(curve, line)}" for line in lines)
    svg = drawing.write(HEIGHT, f"{curve.title} by {curve.x_label}; last {ends}.")
    return figure(curve.title, curve.caption, _legend(curve, lines), svg, _number_table(curve, lines))


def _runs(curve: Curve, values: Sequence[float | None], x: Axis, y: Axis) -> list[list[Point]]:
    """Return the points of a line, split where values are missing."""
    points = [None if value is None else (x(step), y(value)) for step, value in zip(curve.x, values, strict=True)]
    runs = [
        [point for point in run if point is not None] for _, run in groupby(points, key=lambda point: point is None)
    ]
    return [run for run in runs if run]


def _path(run: Sequence[Point]) -> str:
    return "M" + "L".join(f"{short(x)} {short(y)}" for x, y in run)


def _line(curve: Curve, line: Line, x: Axis, y: Axis) -> str:
    """Draw a line with a dot at each step, unless there are many; a paper's with hollow squares."""
    runs = _runs(curve, line.values, x, y)
    points = [point for run in runs if len(curve.x) <= 40 or len(run) == 1 for point in run]
    if line.is_reference:
        dots = [element("rect", x=cx - 3.4, y=cy - 3.4, width=6.8, height=6.8) for cx, cy in points]
    else:
        dots = [element("circle", cx=cx, cy=cy, r=3.2) for cx, cy in points]
    look = f"{'reference' if line.is_reference else 'line'} s{line.colour % 8}"
    return element("g", element("path", d="".join(map(_path, runs))), *dots, class_=look)


def _band(curve: Curve, line: Line, x: Axis, y: Axis) -> str:
    lows, highs = (_runs(curve, [ends and ends[end] for ends in line.intervals], x, y) for end in (0, 1))
    outlines = [_path([*low, *reversed(high)]) + "z" for low, high in zip(lows, highs, strict=True)]
    return element("path", d="".join(outlines), class_=f"between s{line.colour % 8}") if outlines else ""


def _stops(curve: Curve, lines: Sequence[Line], x: Axis, y: Axis) -> list[str]:
    """Write the tooltips of a chart's steps, at most 120, with the places and colours of their values."""
    every = math.ceil(len(curve.x) / 119)
    chosen = sorted({*range(0, len(curve.x), every), len(curve.x) - 1})
    stops = [element("g", element("path", d=f"M0 {short(TOP)}V{short(BOTTOM)}"), class_="guide")]
    for index, following in zip(chosen, [*chosen[1:], None], strict=True):
        step, after = curve.x[index], math.inf if following is None else curve.x[following]
        values = [f"{line.name}: {_in_words(curve, line, index)}" for line in lines]
        events = [mark.meaning for mark in curve.marks if step <= mark.step < after]
        tip = "\n".join([f"{curve.x_label} {plain(step)}", *values, *events])
        heights = [(line.values[index], line.colour % 8) for line in lines]
        drawn = ",".join("" if value is None else f"{short(y(value))} s{colour}" for value, colour in heights)
        stops.append(element("g", class_="stop", data_x=short(x(step)), data_y=drawn, data_tip=tip))
    return stops


def _in_words(curve: Curve, line: Line, index: int) -> str:
    interval = line.intervals[index]
    between = f" ({shown(interval[0], curve.unit)} to {shown(interval[1], curve.unit)})" if interval else ""
    return shown(line.values[index], curve.unit) + between


def _last(curve: Curve, line: Line) -> str:
    return shown(next((value for value in reversed(line.values) if value is not None), None), curve.unit)


def _legend(curve: Curve, lines: Sequence[Line]) -> str:
    """Write the legend: the series with their last values, then references and intervals."""
    stroke, square = element("path", d="M0 5H22"), element("rect", x=7.6, y=1.6, width=6.8, height=6.8)
    entries = [element("li", "last:")]
    for line in lines:
        if line.is_reference:
            key = _key(f"reference s{line.colour % 8}", stroke, square) + text(line.name)
            entries.append(element("li", key))
        else:
            key = _key(f"line s{line.colour % 8}", stroke) + text(line.name) if len(lines) > 1 else ""
            entries.append(element("li", key, element("b", _last(curve, line))))
    if any(interval for line in lines for interval in line.intervals):
        area = element("rect", x=0, y=0, width=22, height=10, class_="between alone")
        entries.append(element("li", _key("", area), "interval"))
    return element("ul", *entries, class_="legend")


def _key(look: str, *content: str) -> str:
    return element("svg", *content, class_=look, viewBox="0 0 22 10", aria_hidden="true")


def _number_table(curve: Curve, lines: Sequence[Line]) -> str:
    """Write all numbers of a curve as a folded table: a row per step, a column per line and interval end."""
    unit = {"bytes": " (bytes)", "percent": " (%)"}.get(curve.unit, "")
    columns: list[tuple[str, Sequence[float | None]]] = []
    for line in lines:
        columns.append((line.name + unit, line.values))
        if any(line.intervals):
            columns.append((f"{line.name}, from", [ends and ends[0] for ends in line.intervals]))
            columns.append((f"{line.name}, to", [ends and ends[1] for ends in line.intervals]))
    rows = [(plain(step), *(plain(column[index]) for _, column in columns)) for index, step in enumerate(curve.x)]
    return numbers_below(curve.title, [curve.x_label, *(name for name, _ in columns)], rows)


def is_short(curve: Curve) -> bool:
    """Return whether a curve has too few steps to be drawn."""
    return len(curve.x) < MIN_STEPS


def step_table(curves: Sequence[Curve]) -> ResultTable:
    """Return short curves as one table: a row per series and a column per step."""
    steps = sorted({step for curve in curves for step in curve.x})
    rows = []
    for curve in curves:
        for line in lines_of(curve):
            texts = {step: _in_words(curve, line, index) for index, step in enumerate(curve.x)}
            name = line.name if line.name == curve.title else f"{curve.title}: {line.name}"
            rows.append((name, [TableCell(texts.get(step, "–"), tip=curve.caption) for step in steps]))
    return ResultTable("", "", "", [f"{curves[0].x_label} {plain(step)}" for step in steps], rows)


# Bars lie, one below the other, each between its name and its value, and are thin where there are many.

_LETTER = 7.0  # width of a letter on a phone, where letters are largest beside the drawing


def bar_chart(bars: Bars) -> str:
    """Draw a bar chart as an HTML figure; a tooltip shows each number."""
    count = len(bars.values)
    if not count:
        return figure(bars.title, bars.caption, element("p", "No values.", class_="empty"))
    row = min(20.0, max(4.0, 320 / count))
    names, values = [shortened(name, 26) for name in bars.names], [shown(value, "number") for value in bars.values]
    ends = [0.0, *bars.values, *([] if bars.line is None else [bars.line])]
    # Values stand in a column of their own, where neither bars nor the dashed line reach.
    x_start, right = 8 + _LETTER * max(map(len, names)), WIDTH - _LETTER * max(map(len, values)) - 8
    x, top, bottom = Axis(min(ends), max(ends), x_start, right), 16.0, 16 + row * count
    drawing = Drawing("bars")
    drawing.text(0, 8, bars.x_label)
    drawing.line(x(0), top, x(0), bottom, "grid")
    for index, value in enumerate(bars.values):
        middle, (start, stop) = top + row * (index + 0.5), sorted((x(value), x(0)))
        look = "bar strong" if bars.strong[index] else "bar"
        drawing.box(start, middle - 0.3 * row, stop - start, 0.6 * row, look)
        if index % math.ceil(12 / row) == 0:  # a name needs a height of 12
            drawing.text(0, middle + 3.2, names[index])
            drawing.text(WIDTH, middle + 3.2, values[index], "end")
        drawing.box(0, top + row * index, WIDTH, row, "row", f"{bars.x_label}: {bars.names[index]}\n{values[index]}")
    if bars.line is not None:
        drawing.line(x(bars.line), top, x(bars.line), bottom, "mark dashed")
        drawing.text(x(bars.line), bottom + 12, bars.line_name, "end name" if x(bars.line) > WIDTH / 2 else "name")
    words = (
        f"{bars.title}: {count} bars from {shown(min(bars.values), 'number')} to {shown(max(bars.values), 'number')}"
    )
    words += f", {sum(bars.strong)} of them stand out. {bars.line_name}"
    rows = [(name, plain(value)) for name, value in zip(bars.names, bars.values, strict=True)]
    numbers = numbers_below(bars.title, [bars.x_label, bars.title], rows)
    return figure(
        bars.title, bars.caption, drawing.write(bottom + (18 if bars.line is not None else 4), words), numbers
    )


# Lanes: the cluster of each client over the steps.

_LANES_TOP, _LANE = 18.0, 14.0  # heights of the headings and of a lane: a line of text each
_LANE_LETTER, _LONGEST_NAME = 6.0, 12  # names take a third of the drawing at most


def client_clusters(clusters: ClientClusters) -> str:
    """Draw the cluster of each client over the steps, beside a table of the last clusters.

    The lanes are omitted with more than 120 clients.
    """
    if not clusters.clients or not clusters.steps:
        return element("p", "No clusters yet.", class_="empty")
    chart = element("div", _draw_lanes(clusters)) if len(clusters.clients) <= 120 else ""
    return figure("", clusters.caption, element("div", chart, _member_table(clusters), class_="halves"))


def _spans(clusters: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the stretches in which a client stays in one cluster: first column, the one after the last, cluster."""
    spans, start = [], 0
    for cluster, run in groupby(clusters):
        stop = start + len(list(run))
        spans.append((start, stop, cluster))
        start = stop
    return spans


def _draw_lanes(clusters: ClientClusters) -> str:
    """Draw the lanes, clients by last cluster: names, one path per cluster, last and hidden clusters, and the axis."""
    last, count = clusters.clusters[:, -1].tolist(), len(clusters.steps)
    order = sorted(range(len(last)), key=lambda client: (last[client] < 0, last[client], client))
    columns = sorted(range(count - 1, -1, -math.ceil(count / 80)))  # of more steps, lanes would be too thin
    names, hidden = (
        [shortened(name, _LONGEST_NAME) for name in texts] for texts in (clusters.clients, clusters.hidden)
    )
    x_start = 10 + _LANE_LETTER * max(len("client"), *map(len, names))
    cluster_x = WIDTH - 28 - _LANE_LETTER * max(map(len, ("true", *hidden))) if hidden else WIDTH - 22
    right, bottom = cluster_x - 20, _LANES_TOP + _LANE * len(order)
    x = Axis(0, len(columns), x_start, right)
    drawing = Drawing("lanes")
    drawing.text(x_start - 6, _LANES_TOP - 7, "client", "end")
    drawing.text(cluster_x, _LANES_TOP - 7, "cluster", "middle")
    if hidden:
        drawing.text(WIDTH, _LANES_TOP - 7, "true", "end")
    paths: dict[int, str] = {}  # one per cluster keeps a page of many clients and steps small
    rows = Drawing("")
    for row, client in enumerate(order):
        top, base = _LANES_TOP + _LANE * row, _LANES_TOP + _LANE * (row + 0.5) + 3
        rows.text(x_start - 6, base, names[client], "end")
        spans = _spans(clusters.clusters[client, columns].tolist())
        for start, stop, cluster in spans:
            edge, width = short(x(start) + 0.4), x(stop) - x(start) - 0.8
            box = f"M{edge} {short(top + 1.5)}h{short(width)}v{short(_LANE - 3)}H{edge}z"
            paths[cluster] = paths.get(cluster, "") + box
            # The last cluster stands behind its lane.
            if cluster >= 0 and stop < len(columns) and width >= _LANE_LETTER * len(str(cluster)) + 4:
                rows.text(x(start) + 4, base, cluster, "in")
        rows.text(cluster_x, base, "–" if last[client] < 0 else last[client], "middle name")
        if hidden:
            rows.text(WIDTH, base, hidden[client], "end")
        rows.box(0, top, WIDTH, _LANE, "row", _lane_tip(clusters, client))
    for cluster in sorted(paths):
        drawing.path(paths[cluster], f"lane {markup.cluster_class(None if cluster < 0 else cluster)}")
    steps = [clusters.steps[column] for column in columns]
    for tick in nice_ticks(steps[0], steps[-1], count=7, whole=True) if len(steps) > 1 else steps:
        if steps[0] <= tick <= steps[-1]:
            drawing.text(x(float(np.interp(tick, steps, range(len(steps)))) + 0.5), bottom + 13, plain(tick), "middle")
    drawing.text((x_start + right) / 2, bottom + 27, clusters.x_label, "middle")
    for mark in clusters.marks:
        if 0 < (column := int(np.searchsorted(steps, mark.step))) < len(steps):
            drawing.line(x(column), _LANES_TOP - 4, x(column), bottom + 2, "mark")
    drawing.parts += rows.parts
    words = f"Clusters of {len(order)} clients by {clusters.x_label}: {len(set(last) - {-1})} in the end."
    key = "A lane is a client, its colour and number the cluster it was in."
    key += " Grey: in no cluster yet." if (clusters.clusters < 0).any() else ""
    key += " Vertical lines: what happened to clients, see the curves." if clusters.marks else ""
    key += f" Shown are {len(columns)} of {count} {clusters.x_label}s." if len(columns) < count else ""
    lanes = drawing.write(bottom + 34, f"{words} The table lists the members.")
    if len(order) > 40:
        lanes = markup.scrolling(lanes, "Cluster of each client", tall=True)
    return lanes + element("p", key, class_="key")


def _lane_tip(clusters: ClientClusters, client: int) -> str:
    """Return the tooltip of a client: its cluster over the steps, the last eight stretches of many."""
    spans = _spans(clusters.clusters[client].tolist())
    hidden = f", true cluster {clusters.hidden[client]}" if clusters.hidden else ""
    lines = [f"client {clusters.clients[client]}{hidden}", *(["…"] if len(spans) > 8 else [])]
    for start, stop, cluster in spans[-8:]:
        when = "–".join(dict.fromkeys(plain(clusters.steps[column]) for column in (start, stop - 1)))
        lines.append(f"{clusters.x_label} {when}: {'none yet' if cluster < 0 else f'cluster {cluster}'}")
    return "\n".join(lines)


def _member_table(clusters: ClientClusters) -> str:
    """Write the table of the last clusters: their clients, true clusters, most frequent first, and accuracy."""
    last = clusters.clusters[:, -1].tolist()
    heads = ["cluster", "clients", *(["true clusters"] if clusters.hidden else [])]
    heads += [*(["accuracy"] if clusters.scores else []), "which"]
    rows = []
    for cluster in sorted(set(last), key=lambda key: (key < 0, key)):
        members = [client for client, final in enumerate(last) if final == cluster]
        row: list[object] = ["none yet" if cluster < 0 else markup.cluster_mark(cluster, str(cluster)), len(members)]
        if clusters.hidden:
            counts = Counter(sorted(clusters.hidden[client] for client in members)).most_common()
            row.append(", ".join(f"{number} {name}" for name, number in counts))
        row += [shown(clusters.scores.get(cluster), "share")] if clusters.scores else []
        rows.append([*row, markup.name_ranges([clusters.clients[client] for client in members])])
    return markup.sheet(markup.table(heads, rows, "numbers members"), "Clients of each cluster")
