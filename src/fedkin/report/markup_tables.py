"""HTML tables with shaded cells, which can be copied as tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedkin.report.markup import cluster_mark, element, sheet, table, text
from fedkin.report.run_view import ClusterTable, Profiles

LEVELS = 10
DIVERGING_LEVELS = 5


def count_table(view: ClusterTable) -> str:
    """Write a table of samples by client and cluster, shaded by count, with totals."""
    counts = np.asarray(view.counts)
    largest = max(int(counts.max(initial=0)), 1)
    rows = []
    for client, key, row in zip(view.clients, view.keys or view.clients, counts, strict=True):
        cells = [f'<td class="h{-(-LEVELS * int(count) // largest)}">{int(count)}</td>' for count in row]
        name = element("th", text(client), scope="row")
        rows.append(element("tr", name, *cells, element("td", str(int(row.sum())), class_="total"), data_client=key))
    totals = [element("td", str(int(total))) for total in [*counts.sum(axis=0), counts.sum()]]
    foot = element("tfoot", _mostly(view.mostly), element("tr", element("th", "all", scope="row"), *totals))
    head = _head("client", view.clusters, element("th", "all", scope="col", class_="total"))
    body = element("table", head, element("tbody", *rows), foot, class_="heat")
    return element("p", text(view.caption)) + sheet(body, "Samples by client and cluster")


def _mostly(classes: Sequence[str]) -> str:
    """Write a row with the most frequent true class of every cluster; an empty string if none are known."""
    if not classes:
        return ""
    cells = [element("td", text(each)) for each in [*classes, ""]]
    return element("tr", element("th", "most frequent class", scope="row"), *cells, class_="mostly")


def profile_table(profiles: Profiles) -> str:
    """Write a table of feature means by cluster, shaded by their distance from the overall mean."""
    means = np.asarray(profiles.means, dtype=float)
    known = np.abs(means[np.isfinite(means)])
    largest = float(known.max(initial=0.0)) or 1.0
    rows = [
        element("tr", element("th", text(feature), scope="row"), *(_deviation(value, largest) for value in column))
        for feature, column in zip(profiles.features, means.T, strict=True)
    ]
    body = element("table", _head("feature", profiles.clusters), element("tbody", *rows), class_="heat")
    return element("p", text(profiles.caption)) + sheet(body, "Mean of every feature by cluster")


def _head(corner: str, clusters: Sequence[int], *more: str) -> str:
    columns = [element("th", cluster_mark(cluster), element("span", str(cluster)), scope="col") for cluster in clusters]
    return element("thead", element("tr", element("th", corner, scope="col"), *columns, *more))


def _deviation(value: float, largest: float) -> str:
    if not np.isfinite(value):
        return "<td>–</td>"
    level = round(DIVERGING_LEVELS * value / largest)
    shade = f"p{level}" if level > 0 else f"n{-level}"
    return f'<td class="{shade}">{value:.2f}</td>'


def settings_table(settings: Sequence[tuple[str, str]]) -> str:
    """Write names and values of settings in two columns."""
    return sheet(table([], settings, "settings"), "Settings")
