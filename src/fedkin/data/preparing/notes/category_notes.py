"""Notes on categories that are spelt differently, or in other words at some clients.

They are made from the names of frequent categories that clients report, and from numbers of rows where these are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedkin.core.errors import listing
from fedkin.data.preparing.notes.category_rows import CategoryRows, Renamed, are_apart, renamed
from fedkin.data.preparing.notes.column_notes import (
    COLUMNS,
    NAMED,
    clients_in_words,
    has_no_common,
    note_on_apart,
    parts_apart,
    spelt_alike,
    spelt_where,
)

_EXAMPLES = 3
"""Categories of a column that a note on other words names."""


def notes_on_categories(
    reported: Mapping[str, Mapping[str, Sequence[str]]],
    rows: Mapping[str, Mapping[str, CategoryRows]] | None = None,
) -> list[str]:
    """Return notes on columns' categories: different spellings of one, and clients that have none or few in common.

    `reported` are by column and client's name the categories that the client reports; `rows`, where they are known, by
    both how many rows are in each. Columns with the same spellings, or clients, are one note.
    """
    alike: dict[str, list[str]] = {}
    apart: dict[str, list[str]] = {}
    other_words: dict[tuple[str, ...], dict[str, Renamed]] = {}
    for column, by_client in reported.items():
        counted = (rows or {}).get(column, {})
        if spellings := spelt_alike(dict.fromkeys(name for own in by_client.values() for name in own)):
            listed = "; ".join(spelt_where(group, by_client) for group in spellings[:NAMED])
            more = f" (and {len(spellings) - NAMED} more)" if len(spellings) > NAMED else ""
            alike.setdefault(f"{listed}{more}", []).append(column)
        if parts := [part for part in parts_apart(by_client) if are_apart(part, by_client, counted)]:
            apart.setdefault(" and at ".join(map(clients_in_words, parts)), []).append(column)
        elif not spellings and not has_no_common(by_client) and (found := renamed(counted)):
            other_words.setdefault(found.clients, {})[column] = found
    notes = [
        f"Categories of {_quoted('column', names)} that differ in spelling alone count as different: {listed}; spell "
        "them alike if they are the same."
        for listed, names in alike.items()
    ]
    for clients, names in apart.items():
        have, its = ("has", "its") if len(names) == 1 else ("have", "their")
        notes.append(
            f"{_quoted('Column', names)} {have} no frequent value of the other clients at {clients}; spell {its} "
            "values alike if they are the same."
        )
    return [*notes, *(_on_other_words(*pair) for pair in other_words.items())]


def _on_other_words(clients: Sequence[str], found: Mapping[str, Renamed]) -> str:
    """Return a note on columns some of whose categories are in other words at some clients."""
    own, lacking = (
        listing([f"'{name}'" for one in found.values() for name in getattr(one, side)[:_EXAMPLES]], NAMED)
        for side in ("own", "lacking")
    )
    has = "has" if len(found) == 1 else "have"
    return (
        f"{_quoted('Column', [*found])} {has} {own} at {clients_in_words(clients)} alone, and {lacking} at all other "
        "clients; spell values alike if they are the same."
    )


def note_on_apart_categories(
    names: Sequence[str],
    reported: Mapping[str, Mapping[str, Sequence[str]]],
    rows: Mapping[str, Mapping[str, CategoryRows]],
) -> list[str]:
    """Return `note_on_apart` on columns of categories; `reported` and `rows` are as for `notes_on_categories`.

    Columns of which clients have rows in each other's categories are none, though none is frequent at two.
    """
    apart = [
        name
        for name in names
        if all(are_apart([client], reported.get(name, {}), rows.get(name, {})) for client in reported.get(name, {}))
    ]
    return note_on_apart(apart, "a frequent value", ", or spell {its} values alike if they are the same")


def _quoted(word: str, names: Sequence[str]) -> str:
    listed = listing([f"'{name}'" for name in names], COLUMNS)
    return f"{word} {listed}" if len(names) == 1 else f"{word}s {listed}"
