"""Hints on what clients' cells hold, which need the cells themselves: nothing is wrong, but more could be made of it.

They are made where the data are, and not sent, as those of `fedkin.data.preparing.notes.cell_notes` are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fedkin.core.errors import listing
from fedkin.core.table import Table
from fedkin.data.preparing.column_reports import MIN_MEMBERS
from fedkin.data.preparing.notes.ordered_levels import in_usual_order

_NAMED = 8
"""Columns that a hint names."""


def hints_on_cells(tables: Mapping[str, Table]) -> list[str]:
    """Return hints on the tables of clients, which are given by name: durations, and categories with a usual order.

    Levels are named, so each is in as many rows as a category needs for its name to leave a client.
    """
    levels: dict[str, Counter[str]] = {}
    other = set()
    for table in tables.values():
        for column, cells in zip(table.columns, table.values.unbind(1), strict=True):
            if column.kind == "category" and not column.asked:
                rows = cells[~cells.isnan()].long().bincount(minlength=len(column.categories)).tolist()
                levels.setdefault(column.name, Counter()).update(dict(zip(column.categories, rows, strict=True)))
            elif column.kind != "number" or not cells.isnan().all():
                other.add(column.name)
    columns: dict[tuple[str, ...], list[str]] = {}
    for name, own in levels.items():
        if name not in other and min(own.values(), default=0) >= MIN_MEMBERS and (ordered := in_usual_order(own)):
            columns.setdefault(tuple(ordered), []).append(name)
    return [*_on_hours(tables), *(_on_order(names, order) for order, names in columns.items())]


def _on_hours(tables: Mapping[str, Table]) -> list[str]:
    """Return a hint on columns of times or durations, which are numbers of hours in all that is said of them."""
    columns = [column for table in tables.values() for column in table.columns]
    names = dict.fromkeys(one.name for one in columns if one.kind == "number" and one.written)
    if not names:
        return []
    quoted = listing([f"'{name}'" for name in names], _NAMED)
    which = f"Columns {quoted} hold" if len(names) > 1 else f"Column {quoted} holds"
    return [f"{which} times or durations, which are in hours from here on."]


def _on_order(names: list[str], order: tuple[str, ...]) -> str:
    quoted, some = listing([f"'{name}'" for name in names], _NAMED), len(names) > 1
    which = (
        f"Columns {quoted} count as categories, but their" if some else f"Column {quoted} counts as categories, but its"
    )
    return (
        f"{which} values have an order: {', '.join(order)}; name {'them' if some else 'it'} in ordinal, with these "
        "levels, to have it count."
    )
