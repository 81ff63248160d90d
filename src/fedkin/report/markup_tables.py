"""HTML tables of a run's page: with shaded cells, of events and of settings; all can be copied as tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedkin.report.markup import cluster_heads, cluster_mark, element, name_ranges, shade, sheet, table, text
from fedkin.report.numbers import plain
from fedkin.report.run_view import ClientEvent, ClusterTable, Profiles

LEVELS = 10
DIVERGING_LEVELS = 5


def count_table(view: ClusterTable) -> str:
    """Write a table of samples by client and cluster, shaded by count, with totals."""
    counts = np.asarray(view.counts)
    largest = max(int(counts.max(initial=0)), 1)
    rows = []
    for client, row in zip(view.clients, counts, strict=True):
        cells = [f'<td class="h{-(-LEVELS * int(count) // largest)}">{int(count)}</td>' for count in row]
        name = element("th", text(client), scope="row")
        rows.append(element("tr", name, *cells, element("td", str(int(row.sum())), class_="total"), data_client=client))
    totals = [element("td", str(int(total))) for total in [*counts.sum(axis=0), counts.sum()]]
    foot = element("tfoot", _mostly(view.mostly), element("tr", element("th", "all", scope="row"), *totals))
    head = cluster_heads("client", view.clusters, element("th", "all", scope="col", class_="total"))
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
    body = element("table", cluster_heads("feature", profiles.clusters), element("tbody", *rows), class_="heat")
    return element("p", text(profiles.caption)) + sheet(body, "Mean of every feature by cluster")


def _deviation(value: float, largest: float) -> str:
    if not np.isfinite(value):
        return "<td>–</td>"
    return f'<td class="{shade(round(DIVERGING_LEVELS * value / largest))}">{value:.2f}</td>'


def settings_table(settings: Sequence[tuple[str, str]]) -> str:
    """Write names and values of settings in two columns."""
    return sheet(table([], settings, "settings"), "Settings")


def change_table(changes: Sequence[ClientEvent], x_label: str = "step") -> str:
    """Write the events as an HTML table: step, event, clusters before and after, and the clients."""
    heads = [x_label, "event", "from", "to", "clients", "which"]
    rows = [
        (
            plain(change.step), change.what, _cluster(change.before), _cluster(change.after), len(change.clients),
            name_ranges(change.clients),
        )
        for change in changes
    ]  # fmt: skip
    return sheet(table(heads, rows, "numbers members changes"), "Events")


def _cluster(cluster: int | None) -> str:
    return "" if cluster is None else cluster_mark(cluster, str(cluster))
