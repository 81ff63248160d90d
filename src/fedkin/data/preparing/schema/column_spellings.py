"""Columns whose names differ between clients in spelling alone, as `Age` and `age`, which are taken for one.

Clients keep their own names: the server sends the common ones, and each looks for them in its table.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fedkin.core import Payload
from fedkin.core.errors import listing
from fedkin.core.table import Kind, Table
from fedkin.data.preparing.notes.column_notes import spelt_alike

_TOGETHER: tuple[frozenset[Kind], ...] = (
    frozenset({"boolean", "number"}),
    frozenset({"boolean", "category"}),
)
"""Kinds that one column may have at different clients."""
_NAMED = 8
"""Groups of names in a note."""


def in_common_spelling(replies: Mapping[int, Payload]) -> tuple[dict[int, Payload], list[str]]:
    """Return clients' reports with one name for columns that differ in spelling alone, and a note on these.

    The name is the one that most clients have, the first of them. Columns stay apart that some client has both of, or
    that differ in kind. `replies` have ``names`` and ``columns``, see `fedkin.data.preparing.column_reports`.
    """
    count = Counter(name for reply in replies.values() for name in reply["names"])
    common: dict[str, str] = {}
    groups = spelt_alike(count)
    group_of = {name: at for at, group in enumerate(groups) for name in group}
    apart, kinds = set(), defaultdict(set)
    for reply in replies.values():
        own = Counter(group_of[name] for name in reply["names"] if name in group_of)
        apart |= {at for at, columns in own.items() if columns > 1}
        for name, (kind, filled, *_) in zip(reply["names"], reply["columns"], strict=True):
            if filled and name in group_of:
                kinds[group_of[name]].add(kind)
    for at, group in enumerate(groups):
        if at not in apart and _together(kinds[at]):
            most = max(group, key=lambda name: count[name])
            common |= dict.fromkeys(group, most)
    if not common:
        return dict(replies), []
    renamed = {
        client: {**reply, "names": [common.get(name, name) for name in reply["names"]]}
        for client, reply in replies.items()
    }
    return renamed, [_note(common)]


def with_names(table: Table, wanted: Sequence[tuple[str, Kind | None]]) -> Table:
    """Return a table whose columns have the `wanted` names where they differ from these in spelling alone.

    `wanted` are names and kinds, ``None`` for any; a name that the table has, or two of its columns may mean, and a
    column of an incompatible kind stay as they are.
    """
    named, has = dict(wanted), set(table.names)
    free = {column.name: column.kind for column in table.columns if column.name not in named}
    lacking = {name for name in named if name not in has}
    meant: dict[str, str] = {}
    for group in spelt_alike([*lacking, *free]) if lacking and free else []:
        own, names = ([name for name in group if name in some] for some in (free, lacking))
        if len(own) == len(names) == 1 and ((kind := named[names[0]]) is None or _together({free[own[0]], kind})):
            meant[own[0]] = names[0]
    if not meant:
        return table
    return replace(table, columns=tuple(replace(one, name=meant.get(one.name, one.name)) for one in table.columns))


def _together(kinds: set[Kind]) -> bool:
    return len(kinds) < 2 or any(kinds <= pair for pair in _TOGETHER)


def _note(common: Mapping[str, str]) -> str:
    groups: dict[str, list[str]] = {}
    for name, most in common.items():
        groups.setdefault(most, []).append(name)
    alike = listing([" and ".join(f"'{name}'" for name in own) for own in groups.values()], _NAMED)
    return f"Columns {alike} differ in spelling alone and are taken for the same; rename them if they are not."
