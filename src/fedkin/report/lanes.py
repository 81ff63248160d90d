"""Chart of the cluster of each client over the steps, a lane per client, as inline SVG with a table of members."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from fedkin.report.charts import Axis
from fedkin.report.figures import ClientClusters
from fedkin.report.markup import (
    WIDTH,
    Drawing,
    cluster_class,
    cluster_mark,
    element,
    figure,
    name_ranges,
    scrolling,
    sheet,
    short,
    shortened,
    table,
)
from fedkin.report.numbers import nice_ticks, plain, shown

TOP, ROW = 18.0, 14.0
_LETTER, _LONGEST_NAME = 6.0, 12


def client_clusters(clusters: ClientClusters) -> str:
    """Draw the cluster of each client over the steps, beside a table of the last clusters.

    The lanes are omitted with more than 120 clients.
    """
    if not clusters.clients or not clusters.steps:
        return element("p", "No clusters yet.", class_="empty")
    chart = element("div", _chart(clusters)) if len(clusters.clients) <= 120 else ""
    return figure("", clusters.caption, element("div", chart, _table(clusters), class_="halves"))


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
    columns = sorted(range(count - 1, -1, -math.ceil(count / 80)))  # of more steps, lanes would be too thin
    names, hidden = (
        [shortened(name, _LONGEST_NAME) for name in texts] for texts in (clusters.clients, clusters.hidden)
    )
    x_start = 10 + _LETTER * max(len("client"), *map(len, names))
    cluster_x = WIDTH - 28 - _LETTER * max(map(len, ("true", *hidden))) if hidden else WIDTH - 22
    right, bottom = cluster_x - 20, TOP + ROW * len(order)
    x = Axis(0, len(columns), x_start, right)
    drawing = Drawing("lanes")
    drawing.text(x_start - 6, TOP - 7, "client", "end")
    drawing.text(cluster_x, TOP - 7, "cluster", "middle")
    if hidden:
        drawing.text(WIDTH, TOP - 7, "true", "end")
    paths: dict[int, str] = {}  # one per cluster keeps a page of many clients and steps small
    rows = Drawing("")
    for row, client in enumerate(order):
        top, base = TOP + ROW * row, TOP + ROW * (row + 0.5) + 3
        rows.text(x_start - 6, base, names[client], "end")
        spans = _spans(clusters.clusters[client, columns].tolist())
        for start, stop, cluster in spans:
            edge, width = short(x(start) + 0.4), x(stop) - x(start) - 0.8
            box = f"M{edge} {short(top + 1.5)}h{short(width)}v{short(ROW - 3)}H{edge}z"
            paths[cluster] = paths.get(cluster, "") + box
            # The last cluster stands behind its lane.
            if cluster >= 0 and stop < len(columns) and width >= _LETTER * len(str(cluster)) + 4:
                rows.text(x(start) + 4, base, cluster, "in")
        rows.text(cluster_x, base, "–" if last[client] < 0 else last[client], "middle name")
        if hidden:
            rows.text(WIDTH, base, hidden[client], "end")
        rows.box(0, top, WIDTH, ROW, "row", _tip(clusters, client))
    for cluster in sorted(paths):
        drawing.path(paths[cluster], f"lane {cluster_class(None if cluster < 0 else cluster)}")
    steps = [clusters.steps[column] for column in columns]
    for tick in nice_ticks(steps[0], steps[-1], count=7, whole=True) if len(steps) > 1 else steps:
        if steps[0] <= tick <= steps[-1]:
            drawing.text(x(float(np.interp(tick, steps, range(len(steps)))) + 0.5), bottom + 13, plain(tick), "middle")
    drawing.text((x_start + right) / 2, bottom + 27, clusters.x_label, "middle")
    for mark in clusters.marks:
        if 0 < (column := int(np.searchsorted(steps, mark.step))) < len(steps):
            drawing.line(x(column), TOP - 4, x(column), bottom + 2, "mark dashed" if mark.dashed else "mark")
    drawing.parts += rows.parts
    words = f"Clusters of {len(order)} clients by {clusters.x_label}: {len(set(last) - {-1})} in the end."
    key = "A lane is a client, its colour and number the cluster it was in."
    key += " Grey: in no cluster yet." if (clusters.clusters < 0).any() else ""
    key += " Vertical lines: what happened to clients, see the curves." if clusters.marks else ""
    key += f" Shown are {len(columns)} of {count} {clusters.x_label}s." if len(columns) < count else ""
    lanes = drawing.write(bottom + 34, f"{words} The table lists the members.")
    if len(order) > 40:
        lanes = scrolling(lanes, "Cluster of each client", tall=True)
    return lanes + element("p", key, class_="key")


def _tip(clusters: ClientClusters, client: int) -> str:
    """Return the tooltip of a client: its cluster over the steps, the last eight stretches of many."""
    spans = _spans(clusters.clusters[client].tolist())
    hidden = f", true cluster {clusters.hidden[client]}" if clusters.hidden else ""
    lines = [f"client {clusters.clients[client]}{hidden}", *(["…"] if len(spans) > 8 else [])]
    for start, stop, cluster in spans[-8:]:
        when = "–".join(dict.fromkeys(plain(clusters.steps[column]) for column in (start, stop - 1)))
        lines.append(f"{clusters.x_label} {when}: {'none yet' if cluster < 0 else f'cluster {cluster}'}")
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
            counts = Counter(sorted(clusters.hidden[client] for client in members)).most_common()
            row.append(", ".join(f"{number} {name}" for name, number in counts))
        row += [shown(clusters.scores.get(cluster), "share")] if clusters.scores else []
        rows.append([*row, name_ranges([clusters.clients[client] for client in members])])
    return sheet(table(heads, rows, "numbers members"), "Clients of each cluster")
