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

WIDTH, TOP, ROW = 400.0, 18.0, 14.0
_LETTER, _LONGEST_NAME = 6.0, 12


def client_clusters(clusters: ClientClusters) -> str:
    """Draw the cluster of each client over the steps, beside a table of the last clusters.

    The lanes are omitted with more than 120 clients.
    """
    if not clusters.clients or not clusters.steps:
        return element("p", "No clusters yet.", class_="empty")
    caption = element("figcaption", element("p", text(clusters.caption))) if clusters.caption else ""
    chart = element("div", _chart(clusters)) if len(clusters.clients) <= 120 else ""
    return element("figure", caption, element("div", chart, _table(clusters), class_="halves"), class_="card")


def _spans(clusters: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the stretches in which a client stays in one cluster: first column, the one after the last, cluster."""
    spans, start = [], 0
    for cluster, run in groupby(clusters):
        stop = start + len(list(run))
        spans.append((start, stop, cluster))
        start = stop
    return spans


def _chart(clusters: ClientClusters) -> str:
    """Draw the lanes, clients by last cluster: names, one path per cluster, last and hidden clusters, and the axis."""
    last, count = clusters.clusters[:, -1].tolist(), len(clusters.steps)
    order = sorted(range(len(last)), key=lambda client: (last[client] < 0, last[client], client))
    columns = sorted(set(range(count - 1, -1, -math.ceil(count / 80))))  # of more steps, lanes would be too thin
    names = [shortened(name, _LONGEST_NAME) for name in clusters.clients]
    hidden = [shortened(name, _LONGEST_NAME) for name in clusters.hidden]
    left = 10 + _LETTER * max(len("client"), *map(len, names))
    cluster_x = WIDTH - 28 - _LETTER * max(map(len, ("true", *hidden))) if hidden else WIDTH - 22
    right, bottom = cluster_x - 20, TOP + ROW * len(order)

    def x(column: float) -> float:
        return left + (right - left) * column / len(columns)

    heads = [("client", left - 6, "end"), ("cluster", cluster_x, "middle")]
    heads += [("true", WIDTH, "end")] if hidden else []
    parts = [element("text", head, x=place, y=TOP - 7, class_=side) for head, place, side in heads]
    paths: dict[int, str] = {}
    rows = []
    for row, client in enumerate(order):
        top = TOP + ROW * row
        base = top + ROW / 2 + 3
        rows.append(element("text", text(names[client]), x=left - 6, y=base, class_="end"))
        for start, stop, cluster in _spans(clusters.clusters[client, columns].tolist()):
            box = f"M{short(x(start) + 0.4)} {short(top + 1.5)}h{short(x(stop) - x(start) - 0.8)}"
            paths[cluster] = f"{paths.get(cluster, '')}{box}v{short(ROW - 3)}H{short(x(start) + 0.4)}z"
            if cluster >= 0 and x(stop) - x(start) >= _LETTER * len(str(cluster)) + 4:
                rows.append(element("text", str(cluster), x=x(start) + 4, y=base, class_="in"))
        final = "–" if last[client] < 0 else str(last[client])
        rows.append(element("text", final, x=cluster_x, y=base, class_="middle name"))
        if hidden:
            rows.append(element("text", text(hidden[client]), x=WIDTH, y=base, class_="end"))
        tip = _tip(clusters, client)
        rows.append(element("rect", x=0, y=top, width=WIDTH, height=ROW, class_="row", data_tip=tip))
    for cluster in sorted(paths):
        look = f"lane {cluster_class(None if cluster < 0 else cluster)}"
        parts.append(element("path", d=paths[cluster], class_=look))
    steps = [clusters.steps[column] for column in columns]
    for tick in nice_ticks(steps[0], steps[-1], count=7, whole=True) if len(steps) > 1 else steps:
        if steps[0] <= tick <= steps[-1]:
            place = x(float(np.interp(tick, steps, range(len(steps)))) + 0.5)
            parts.append(element("text", plain(tick), x=place, y=bottom + 13, class_="middle"))
    parts.append(element("text", text(clusters.x_label), x=(left + right) / 2, y=bottom + 27, class_="middle"))
    marks: dict[int, bool] = {}  # by column, whether all events in it are the method's
    for mark in clusters.marks:
        if 0 < (column := int(np.searchsorted(steps, mark.step))) < len(steps):
            marks[column] = marks.get(column, True) and mark.dashed
    for column, dashed in sorted(marks.items()):
        line = f"M{short(x(column))} {TOP - 4:g}V{short(bottom + 2)}"
        parts.append(element("path", d=line, class_="mark dashed" if dashed else "mark"))
    words = (
        f"Clusters of {len(order)} clients by {clusters.x_label}: {len(set(last) - {-1})} in the end. The table lists "
        "the members."
    )
    key = "A lane is a client, its colour and number the cluster it was in."
    key += " Grey: in no cluster yet." if (clusters.clusters < 0).any() else ""
    key += " Vertical lines: see the table of events." if marks else ""
    key += f" Shown are {len(columns)} of {count} {clusters.x_label}s." if len(columns) < count else ""
    lanes = drawing("lanes", bottom + 34, words, *parts, *rows)
    if len(order) > 40:
        lanes = scrolling(lanes, "Cluster of each client", tall=True)
    return lanes + element("p", key, class_="key")


def _tip(clusters: ClientClusters, client: int) -> str:
    """Return the tooltip of a client: its cluster over the steps, the last eight stretches of many."""
    spans = _spans(clusters.clusters[client].tolist())
    hidden = f", true cluster {clusters.hidden[client]}" if clusters.hidden else ""
    lines = [f"client {clusters.clients[client]}{hidden}", *(["…"] if len(spans) > 8 else [])]
    for start, stop, cluster in spans[-8:]:
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
        members = [client for client, final in enumerate(last) if final == cluster]
        row: list[object] = ["none yet" if cluster < 0 else cluster_mark(cluster, str(cluster)), len(members)]
        if clusters.hidden:
            counts = Counter(clusters.hidden[client] for client in members)
            ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            row.append(", ".join(f"{number} {name}" for name, number in ordered))
        row += [shown(clusters.scores.get(cluster), "share")] if clusters.scores else []
        rows.append([*row, name_ranges([clusters.clients[client] for client in members])])
    return sheet(table(heads, rows, "numbers members"), "Clients of each cluster")
