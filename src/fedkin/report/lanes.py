"""Chart of the cluster of each client over the steps, a lane per client, as inline SVG with a table of members."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from fedkin.report.figures import ClientClusters
from fedkin.report.markup import (
    cluster_class,
    cluster_mark,
    drawing,
    element,
    name_ranges,
    scrolling,
    sheet,
    short,
    shortened,
    table,
    text,
)
from fedkin.report.numbers import nice_ticks, plain, shown

WIDTH = 400.0
TOP, BOTTOM = 18.0, 34.0
LETTER = 6.0
ROW, DENSE_ROW = 14.0, 10.0
FEW_CLIENTS = 40
MAX_CLIENTS = 120
MAX_COLUMNS = 80
LONGEST_NAME = 12
LONGEST_TIP = 8
GAP = 4.0


class _Run(NamedTuple):
    """Consecutive columns, ``start`` to ``stop - 1``, in which a client stays in one cluster."""

    start: int
    stop: int
    cluster: int


def client_clusters(clusters: ClientClusters) -> str:
    """Draw the cluster of each client over the steps, above a table of the last clusters.

    The lanes are omitted with too many clients. Marks of the timeline are drawn; phases are not, as lanes without a
    cluster show them.
    """
    if not clusters.clients or not clusters.steps:
        return element("p", "No clusters yet.", class_="empty")
    caption = element("figcaption", element("p", text(clusters.caption))) if clusters.caption else ""
    drawing = _chart(clusters) if len(clusters.clients) <= MAX_CLIENTS else ""
    return element(
        "figure", caption, element("div", element("div", drawing), _table(clusters), class_="halves"), class_="card"
    )


class _LaneFrame:
    """Coordinates of the lanes: clients sorted by last cluster, and at most `MAX_COLUMNS` of the steps."""

    def __init__(self, clusters: ClientClusters) -> None:
        last = clusters.clusters[:, -1].tolist()
        self.order = sorted(range(len(last)), key=lambda at: (last[at] < 0, last[at], at))
        every = math.ceil(len(clusters.steps) / MAX_COLUMNS)
        self.columns = sorted(set(range(len(clusters.steps) - 1, -1, -every)))
        self.names = [shortened(name, LONGEST_NAME) for name in clusters.clients]
        self.dense = len(last) > FEW_CLIENTS
        self.row = DENSE_ROW if self.dense else ROW
        self.left = 10 + LETTER * max(len("client"), *map(len, self.names))
        # Headings of the columns on the right: the last cluster and the hidden one.
        widest = max(map(len, ("true", *(shortened(name, LONGEST_NAME) for name in clusters.hidden))))
        self.cluster_at = WIDTH - 28 - LETTER * widest if clusters.hidden else WIDTH - 22
        self.right = self.cluster_at - 20
        self.tops: dict[int, float] = {}
        top, before = TOP, None
        gap = GAP if len(set(last)) <= len(last) / 3 else 0.0
        for at in self.order:
            top += gap if before is not None and last[at] != before else 0.0
            self.tops[at], before = top, last[at]
            top += self.row
        self.bottom = top

    def x(self, column: float) -> float:
        return self.left + (self.right - self.left) * column / len(self.columns)

    def middle(self, at: int) -> float:
        return self.tops[at] + self.row / 2 + 3


def _runs(clusters: Sequence[int]) -> list[_Run]:
    found, start = [], 0
    for cluster, run in groupby(clusters):
        stop = start + len(list(run))
        found.append(_Run(start, stop, cluster))
        start = stop
    return found


def _chart(clusters: ClientClusters) -> str:
    frame = _LaneFrame(clusters)
    runs = {at: _runs(clusters.clusters[at, frame.columns].tolist()) for at in frame.order}
    rows = [_row(clusters, frame, runs[at], at) for at in frame.order]
    look = "lanes dense" if frame.dense else "lanes"
    content = (_heads(clusters, frame), _lanes(frame, runs), _marks(clusters, frame), *rows)
    svg = drawing(look, frame.bottom + BOTTOM, _in_words(clusters), *content)
    key = "A lane is a client, its colour and number the cluster it was in."
    if (clusters.clusters < 0).any():
        key += " Grey: in no cluster yet."
    if any(clusters.steps[0] < mark.step <= clusters.steps[-1] for mark in clusters.timeline.marks):
        key += " Vertical lines: see the table of events."
    if len(frame.columns) < len(clusters.steps):
        key += f" Shown are {len(frame.columns)} of {len(clusters.steps)} {clusters.x_label}s."
    shown_svg = scrolling(svg, "Cluster of each client", tall=True) if frame.dense else svg
    return shown_svg + element("p", key, class_="key")


def _row(clusters: ClientClusters, frame: _LaneFrame, runs: Sequence[_Run], at: int) -> str:
    """Draw a client's texts and tooltip beside and in its lane: name, cluster numbers, last and hidden cluster."""
    y = frame.middle(at)
    parts = [element("text", text(frame.names[at]), x=frame.left - 6, y=y, class_="end")]
    for start, stop, cluster in runs:
        room = frame.x(stop) - frame.x(start)
        if cluster >= 0 and room >= LETTER * len(str(cluster)) + 4:
            parts.append(element("text", str(cluster), x=frame.x(start) + 4, y=y, class_="in"))
    last = "–" if runs[-1].cluster < 0 else str(runs[-1].cluster)
    parts.append(element("text", last, x=frame.cluster_at, y=y, class_="middle name"))
    if clusters.hidden:
        parts.append(element("text", text(shortened(clusters.hidden[at], LONGEST_NAME)), x=WIDTH, y=y, class_="end"))
    tip = _tip(clusters, at)
    area = element("rect", x=0, y=frame.tops[at], width=WIDTH, height=frame.row, class_="row", data_tip=tip)
    return "".join([*parts, area])


def _heads(clusters: ClientClusters, frame: _LaneFrame) -> str:
    """Draw the headings of the columns, and the step axis below the lanes."""
    heads = [("client", frame.left - 6, "end"), ("cluster", frame.cluster_at, "middle")]
    heads += [("true", WIDTH, "end")] if clusters.hidden else []
    parts = [element("text", head, x=x, y=TOP - 7, class_=where) for head, x, where in heads]
    steps = [clusters.steps[column] for column in frame.columns]
    ticks = nice_ticks(steps[0], steps[-1], count=7, whole=True) if len(steps) > 1 else [steps[0]]
    y = frame.bottom + 13
    for tick in ticks:
        if steps[0] <= tick <= steps[-1]:
            column = float(np.interp(tick, steps, range(len(steps))))
            parts.append(element("text", plain(tick), x=frame.x(column + 0.5), y=y, class_="middle"))
    middle = (frame.left + frame.right) / 2
    parts.append(element("text", text(clusters.x_label), x=middle, y=y + 14, class_="middle"))
    return "".join(parts)


def _lanes(frame: _LaneFrame, runs: dict[int, list[_Run]]) -> str:
    """Draw the lanes, one path per cluster, so that thousands of changes stay small."""
    paths: dict[int, list[str]] = {}
    height = frame.row - (2.0 if frame.dense else 3.0)
    for at, own in runs.items():
        for start, stop, cluster in own:
            x, y = frame.x(start) + 0.4, frame.tops[at] + (frame.row - height) / 2
            box = f"M{short(x)} {short(y)}h{short(frame.x(stop) - 0.4 - x)}v{short(height)}H{short(x)}z"
            paths.setdefault(cluster, []).append(box)
    return "".join(
        element("path", d="".join(paths[cluster]), class_=f"lane {cluster_class(None if cluster < 0 else cluster)}")
        for cluster in sorted(paths)
    )


def _marks(clusters: ClientClusters, frame: _LaneFrame) -> str:
    """Draw the timeline's events as vertical lines, each before the first column at or after its step."""
    steps = [clusters.steps[column] for column in frame.columns]
    places: dict[int, bool] = {}
    for mark in clusters.timeline.marks:
        column = int(np.searchsorted(steps, mark.step))
        if 0 < column < len(steps):
            places[column] = places.get(column, True) and mark.dashed
    lines = {column: f"M{short(frame.x(column))} {TOP - 4:g}V{short(frame.bottom + 2)}" for column in sorted(places)}
    return "".join(
        element("path", d=line, class_="mark dashed" if places[column] else "mark") for column, line in lines.items()
    )


def _tip(clusters: ClientClusters, at: int) -> str:
    """Return the tooltip of a client: its cluster over the steps, the last `LONGEST_TIP` stretches of many."""
    spans = _runs(clusters.clusters[at].tolist())
    lines = [f"client {clusters.clients[at]}" + (f", true cluster {clusters.hidden[at]}" if clusters.hidden else "")]
    lines += ["…"] if len(spans) > LONGEST_TIP else []
    for start, stop, cluster in spans[-LONGEST_TIP:]:
        first, last = plain(clusters.steps[start]), plain(clusters.steps[stop - 1])
        when = first if first == last else f"{first}–{last}"
        lines.append(f"{clusters.x_label} {when}: " + ("none yet" if cluster < 0 else f"cluster {cluster}"))
    return "\n".join(lines)


def _table(clusters: ClientClusters) -> str:
    """Write the table of the last clusters: their clients, true clusters and score."""
    last = clusters.clusters[:, -1].tolist()
    heads = ["cluster", "clients"] + (["true clusters"] if clusters.hidden else [])
    heads += ["accuracy"] if clusters.scores else []
    rows = []
    for cluster in sorted(set(last), key=lambda key: (key < 0, key)):
        members = [at for at, own in enumerate(last) if own == cluster]
        row: list[object] = ["none yet" if cluster < 0 else cluster_mark(cluster, str(cluster)), len(members)]
        row += [_counted([clusters.hidden[at] for at in members])] if clusters.hidden else []
        row += [shown(clusters.scores.get(cluster), "share")] if clusters.scores else []
        rows.append([*row, name_ranges([clusters.clients[at] for at in members])])
    return sheet(table([*heads, "which"], rows, "numbers members"), "Clients of each cluster")


def _counted(hidden: Sequence[str]) -> str:
    """Count the clients of each hidden cluster, the most frequent first, as text."""
    counts = sorted(Counter(hidden).items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {name}" for name, count in counts)


def _in_words(clusters: ClientClusters) -> str:
    every, last = clusters.clusters, clusters.clusters[:, -1]
    found = len(set(last[last >= 0].tolist()))
    first_known = every[np.arange(len(every)), (every >= 0).argmax(axis=1)]
    changed = int((first_known != last).sum())
    return (
        f"Clusters of {len(clusters.clients)} clients by {clusters.x_label}: {found} in the end; {changed} clients "
        "end in another cluster than they began in. The table below lists the members."
    )
