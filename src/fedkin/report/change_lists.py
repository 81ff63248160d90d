"""Table of the events of clients, such as moves between clusters."""

from __future__ import annotations

from collections.abc import Sequence

from fedkin.report.markup import cluster_mark, name_ranges, sheet, table
from fedkin.report.numbers import plain
from fedkin.report.run_view import ClientEvent


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
