"""Chart of the cluster of each client over the steps, a lane per client, as inline SVG with a table of members."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

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

WIDTH, TOP, BOTTOM, ROW = 400.0, 18.0, 34.0, 14.0
LETTER, LONGEST_NAME = 6.0, 12
SCROLLS_FROM, MAX_CLIENTS, MAX_COLUMNS = 40, 120, 80
"""Clients from which the chart scrolls and up to which there is one, and steps that it shows."""
LONGEST_TIP = 8

Span = tuple[int, int, int]
"""Consecutive columns, ``start`` to ``stop - 1``, in which a client stays in one cluster, the third."""


def client_clusters(clusters: ClientClusters) -> str:
    """Draw the cluster of each client over the steps, beside a table of the last clusters.

    The lanes are omitted with too many clients. Marks of the timeline are drawn; phases are not, as lanes without a
    cluster show them.
    """
    if not clusters.clients or not clusters.steps:
        return element("p", "No clusters yet.", class_="empty")
    caption = element("figcaption", element("p", text(clusters.caption))) if clusters.caption else ""
    chart = element("div", _chart(clusters)) if len(clusters.clients) <= MAX_CLIENTS else ""
    return element("figure", caption, element("div", chart, _table(clusters), class_="halves"), class_="card")


def _spans(clusters: Sequence[int]) -> list[Span]:
    spans, start = [], 0
    for cluster, run in groupby(clusters):
        stop = start + len(list(run))
        spans.append((start, stop, cluster))
        start = stop
    return spans


def _chart(clusters: ClientClusters) -> str:
    """Draw the lanes, clients by last cluster: names, one path per cluster, last and hidden clusters, and the axis."""
    last, count = clusters.clusters[:, -1].tolist(), len(clusters.steps)
    order = sorted(range(len(last)), key=lambda at: (last[at] < 0, last[at], at))
    columns = sorted(set(range(count - 1, -1, -math.ceil(count / MAX_COLUMNS))))
    names = [shortened(name, LONGEST_NAME) for name in clusters.clients]
    hidden = [shortened(name, LONGEST_NAME) for name in clusters.hidden]
    left = 10 + LETTER * max(len("client"), *map(len, names))
    cluster_at = WIDTH - 28 - LETTER * max(map(len, ("true", *hidden))) if hidden else WIDTH - 22
    right, bottom = cluster_at - 20, TOP + ROW * len(order)

    def x(column: float) -> float:
        return left + (right - left) * column / len(columns)

    heads = [
        ("client", left - 6, "end"),
        ("cluster", cluster_at, "middle"),
        *([("true", WIDTH, "end")] if hidden else []),
    ]
    parts = [element("text", head, x=place, y=TOP - 7, class_=where) for head, place, where in heads]
    paths: dict[int, list[str]] = {}
    rows = []
    for row, at in enumerate(order):
        top = TOP + ROW * row
        base = top + ROW / 2 + 3
        rows.append(element("text", text(names[at]), x=left - 6, y=base, class_="end"))
        for start, stop, cluster in _spans(clusters.clusters[at, columns].tolist()):
            box = f"M{short(x(start) + 0.4)} {short(top + 1.5)}h{short(x(stop) - x(start) - 0.8)}"
            paths.setdefault(cluster, []).append(f"{box}v{short(ROW - 3)}H{short(x(start) + 0.4)}z")
            if cluster >= 0 and x(stop) - x(start) >= LETTER * len(str(cluster)) + 4:
                rows.append(element("text", str(cluster), x=x(start) + 4, y=base, class_="in"))
        rows.append(element("text", "–" if last[at] < 0 else str(last[at]), x=cluster_at, y=base, class_="middle name"))
        if hidden:
            rows.append(element("text", text(hidden[at]), x=WIDTH, y=base, class_="end"))
        area = {"x": 0, "y": top, "width": WIDTH, "height": ROW}
        rows.append(element("rect", **area, class_="row", data_tip=_tip(clusters, at)))
    for cluster in sorted(paths):
        look = f"lane {cluster_class(None if cluster < 0 else cluster)}"
        parts.append(element("path", d="".join(paths[cluster]), class_=look))
    steps = [clusters.steps[column] for column in columns]
    for tick in nice_ticks(steps[0], steps[-1], count=7, whole=True) if len(steps) > 1 else steps:
        if steps[0] <= tick <= steps[-1]:
            place = x(float(np.interp(tick, steps, range(len(steps)))) + 0.5)
            parts.append(element("text", plain(tick), x=place, y=bottom + 13, class_="middle"))
    parts.append(element("text", text(clusters.x_label), x=(left + right) / 2, y=bottom + 27, class_="middle"))
    marks: dict[int, bool] = {}  # by column, whether all events there are the method's
    for mark in clusters.timeline.marks:
        if 0 < (column := int(np.searchsorted(steps, mark.step))) < len(steps):
            marks[column] = marks.get(column, True) and mark.dashed
    for column, dashed in sorted(marks.items()):
        line = f"M{short(x(column))} {TOP - 4:g}V{short(bottom + 2)}"
        parts.append(element("path", d=line, class_="mark dashed" if dashed else "mark"))
    words = (
        f"Clusters of {len(order)} clients by {clusters.x_label}: {len(set(last) - {-1})} in the end. The table lists "
        "the members."
    )
    drawn = drawing("lanes", bottom + BOTTOM, words, *parts, *rows)
    key = "A lane is a client, its colour and number the cluster it was in."
    key += " Grey: in no cluster yet." if (clusters.clusters < 0).any() else ""
    key += " Vertical lines: see the table of events." if marks else ""
    key += f" Shown are {len(columns)} of {count} {clusters.x_label}s." if len(columns) < count else ""
    scrolls = len(order) > SCROLLS_FROM
    drawn = scrolling(drawn, "Cluster of each client", tall=True) if scrolls else drawn
    return drawn + element("p", key, class_="key")


def _tip(clusters: ClientClusters, at: int) -> str:
    """Return the tooltip of a client: its cluster over the steps, the last `LONGEST_TIP` stretches of many."""
    spans = _spans(clusters.clusters[at].tolist())
    lines = [f"client {clusters.clients[at]}" + (f", true cluster {clusters.hidden[at]}" if clusters.hidden else "")]
    lines += ["…"] if len(spans) > LONGEST_TIP else []
    for start, stop, cluster in spans[-LONGEST_TIP:]:
        first, last = plain(clusters.steps[start]), plain(clusters.steps[stop - 1])
        when = first if first == last else f"{first}–{last}"
        lines.append(f"{clusters.x_label} {when}: " + ("none yet" if cluster < 0 else f"cluster {cluster}"))
    return "\n".join(lines)


def _table(clusters: ClientClusters) -> str:
    """Write the table of the last clusters: their clients, true clusters, most frequent first, and accuracy."""
    last = clusters.clusters[:, -1].tolist()
    heads = ["cluster", "clients", *(["true clusters"] if clusters.hidden else [])]
    heads += [*(["accuracy"] if clusters.scores else []), "which"]
    rows = []
    for cluster in sorted(set(last), key=lambda key: (key < 0, key)):
        members = [at for at, own in enumerate(last) if own == cluster]
        row: list[object] = ["none yet" if cluster < 0 else cluster_mark(cluster, str(cluster)), len(members)]
        if clusters.hidden:
            counts = Counter(clusters.hidden[at] for at in members)
            ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            row.append(", ".join(f"{count} {name}" for name, count in ordered))
        row += [shown(clusters.scores.get(cluster), "share")] if clusters.scores else []
        rows.append([*row, name_ranges([clusters.clients[at] for at in members])])
    return sheet(table(heads, rows, "numbers members"), "Clients of each cluster")
