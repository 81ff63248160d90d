"""Columns that say at which client a row is, such as the name of a hospital, and are no feature of samples."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from torch import Tensor

from fedkin.core.errors import listing
from fedkin.data.preparing.column_reports import ColumnReport

_NAMED = 8
"""Columns that the note names."""


def may_be_place(reports: Collection[ColumnReport]) -> bool:
    """Return whether each client reports one category of a column, and no two the same.

    A column that a user has named in `categorical` is a feature.
    """
    own = [report.categories for report in reports]
    return len(set(own)) == len(own) > 1 and all(
        report.kind == "category" and len(report.categories) == 1 and not report.asked for report in reports
    )


def places(
    names: Sequence[str], counts: Sequence[Tensor], reports: Mapping[int, Mapping[str, ColumnReport]]
) -> tuple[list[str], list[str]]:
    """Return which of the columns have one value at each client, and which may have others that are rare.

    `counts` are those of their categories at all clients, the last of all others.
    """
    sure: list[str] = []
    unsure: list[str] = []
    for name, frequencies in zip(names, counts, strict=True):
        if may_be_place([own[name] for own in reports.values() if name in own and own[name].filled]):
            (unsure if float(frequencies[-1]) else sure).append(name)
    return sure, unsure


def note_on_places(names: Sequence[str]) -> str:
    """Return the note on columns that are left out because they say at which client a row is."""
    quoted = listing([f"'{name}'" for name in names], _NAMED)
    has, says, them = f"Column {quoted} has", "it says where a row comes from and is", "it"
    if len(names) > 1:
        has, says, them = f"Columns {quoted} have", "they say where a row comes from and are", "them"
    return (
        f"{has} one value at each client and another at every other, so {says} left out; name {them} in categorical to "
        f"keep {them}."
    )
