"""The events of clients, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from fedkin.report.markup import cluster_mark, element, name_ranges, sheet, text
from fedkin.report.numbers import plain
from fedkin.report.run_view import ClientEvent


def change_table(changes: Sequence[ClientEvent], x_label: str = "step") -> str:
    """One row per event: step, event, clusters from and to, and the clients."""
    heads = (x_label, "event", "from", "to", "clients", "which")
    rows = []
    for change in changes:
        name = element("th", plain(change.step), scope="row")
        cells = (text(change.what), _cluster(change.before), _cluster(change.after), str(len(change.clients)))
        rows.append(element("tr", name, *(element("td", cell) for cell in (*cells, text(name_ranges(change.clients))))))
    head = element("thead", element("tr", *(element("th", text(head), scope="col") for head in heads)))
    table = element("table", head, element("tbody", *rows), class_="numbers members changes")
    return sheet(table, "Events")


def _cluster(cluster: int | None) -> str:
    return "" if cluster is None else cluster_mark(cluster, str(cluster))
