"""Notes on columns that distinguish clients rather than samples, and on categories that are spelt differently.

They are made from what clients report anyway: names of frequent categories, numbers of cells, sums, minima and maxima.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from fedkin.core.errors import listing
from fedkin.core.table import Kind
from fedkin.data.preparing.column_reports import MIN_MEMBERS

NAMED, _PARTS, COLUMNS = 5, 3, 8
"""Clients that a note names, notes on clients that are apart from the others in one column, and columns of a note."""
_EXACT = 1e-9
"""Relative difference that rounding makes."""
_ALIKE = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "\u00ad": "", "\u200b": "", **dict.fromkeys("\u2010\u2011\u2012–—\u2212", "-")}
)
"""Umlauts, invisible hyphens and blanks, and hyphens, dashes and minus signs by the hyphen of the keyboard."""
_MARKS = re.compile(r"[\s_]|(?<=[^\W\d_])-(?=[^\W\d_])|(?<=[^\W\d_])\.")
"""What does not tell names apart; beside digits and at the end a sign may, as in A+ and A-."""

NO_LABEL_SHARED, SPELT_LABELS = "no label with the other clients", "Labels that differ in spelling alone"
"""Words of notes on labels that explain clusters of clients."""

Ends = tuple[float, float]


def spelt_alike(names: Iterable[str]) -> list[list[str]]:
    """Return groups of names that differ only in spelling, in the order of the first of each.

    That is in case, blanks, underscores, hyphens between letters, full stops after letters, umlauts, and whether a
    hyphen is a dash or minus sign.
    """
    same: dict[str, list[str]] = {}
    for name in names:
        same.setdefault(_MARKS.sub("", name.casefold().translate(_ALIKE)), []).append(name)
    return [own for own in same.values() if len(own) > 1]


def spelt_as(name: str, others: Iterable[str]) -> str | None:
    """Return the first of the others that differs from `name` in spelling alone; ``None`` without any."""
    return next((group[1] for group in spelt_alike([name, *others]) if group[0] == name), None)


def has_no_common(by_client: Mapping[str, Sequence[str]]) -> bool:
    """Return whether no two clients report a common category; as of `fedkin.data.preparing.notes.category_notes`."""
    known = {client: set(own) for client, own in by_client.items() if own}
    return len(_connected(known)) == len(known) > 1


def note_on_apart(names: Sequence[str], what: str, fix: str = "") -> list[str]:
    """Return a note on columns of which no two clients share `what`; `fix` ends it, with places for it and its."""
    if not names:
        return []
    quoted, some = listing([f"'{name}'" for name in names], COLUMNS), len(names) > 1
    which = f"Columns {quoted} distinguish" if some else f"Column {quoted} distinguishes"
    them, features = ("them", "they are no features") if some else ("it", "it is no feature")
    return [
        f"{which} clients, for no two of them share {what}; name {them} in drop if {features} of samples"
        f"{fix.format(it=them, its='their' if some else 'its')}."
    ]


def notes_on_labels(by_client: Mapping[str, Sequence[str]]) -> list[str]:
    """Return notes on labels, by client: different spellings, and clients that share none with others.

    Where no two clients share a label, each may have classes of its own, and nothing is said.
    """
    notes = notes_on_spelt_labels(by_client)
    if parts := parts_apart(by_client):
        groups = [f"{clients_in_words(part)} ('{by_client[part[0]][0]}', ...)" for part in parts]
        share = "shares" if len(parts) == len(parts[0]) == 1 else "share"
        said = " and ".join(groups)
        notes.append(
            f"{said[0].upper()}{said[1:]} {share} {NO_LABEL_SHARED}, which alone can make clusters of clients; write "
            "labels alike if they mean the same."
        )
    return notes


def notes_on_spelt_labels(by_client: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a note on labels, by client, that are different spellings of one."""
    alike = spelt_alike(dict.fromkeys(name for own in by_client.values() for name in own))
    if not alike:
        return []
    listed = "; ".join(spelt_where(group, by_client) for group in alike[:NAMED])
    return [f"{SPELT_LABELS} are different classes: {listed}; spell them alike if they are the same."]


def parts_apart(by_client: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return groups of clients that share no value with the first group; none if no two clients share one."""
    known = {client: set(own) for client, own in by_client.items() if own}
    parts = _connected(known)
    return parts[1 : _PARTS + 1] if len(parts) < len(known) else []


def spelt_where(group: Sequence[str], by_client: Mapping[str, Sequence[str]]) -> str:
    """Return the spellings of one category, each with a client that has it."""
    first = [next(client for client, own in by_client.items() if name in own) for name in group]
    if len(set(first)) == 1:
        return ", ".join(f"'{name}'" for name in group)
    return ", ".join(f"'{name}' ({clients_in_words([client])})" for name, client in zip(group, first, strict=True))


def as_written(value: float, kind: Kind) -> str:
    """Return a value as it stands in the table: of a date the day."""
    if kind == "date":
        return str(np.datetime64("1970-01-01") + np.timedelta64(math.floor(value), "D"))
    return f"{value:.15g}"


def rounded(value: float, kind: Kind) -> str:
    """Return a number of four digits with thousands apart, or the day of a date."""
    return as_written(value, kind) if kind == "date" else f"{float(f'{value:.4g}'):,.15g}"


def _connected(known: Mapping[str, set[str]]) -> list[list[str]]:
    """Return clients in parts that share values, the part of most clients first."""
    parts: list[tuple[list[str], set[str]]] = []
    for client, own in known.items():
        met = [part for part in parts if part[1] & own]
        joined = ([name for part in met for name in part[0]] + [client], own.union(*(part[1] for part in met)))
        parts = [*(part for part in parts if part not in met), joined]
    return largest_first([part[0] for part in parts], known)


def largest_first(parts: Iterable[list[str]], order: Iterable[str]) -> list[list[str]]:
    """Return parts of clients, the one of most clients first, and each in the given order."""
    at = {client: place for place, client in enumerate(order)}
    return sorted((sorted(part, key=at.__getitem__) for part in parts), key=lambda part: (-len(part), at[part[0]]))


def clients_in_words(names: Sequence[str]) -> str:
    """Return clients by name, of which only the first few are named."""
    named = [name.removeprefix("Client ") for name in names]
    return f"{'client' if len(named) == 1 else 'clients'} {listing(named, NAMED)}"


def notes_on_codes(
    columns: Iterable[str], means: Tensor, replies: Mapping[str, Mapping[str, Any]], squares: Mapping[str, Tensor]
) -> list[str]:
    """Return a note for each column that has two whole numbers at every client, each in five rows, and not the same.

    Columns of which no two clients share a number have a note of their own, as of
    `fedkin.data.preparing.notes.range_notes`. At a client all values are minimum or maximum if, and only if, the
    variance is as large as these allow. `means`, float64 ``(columns,)``, are of all clients, and `replies` as for
    `wrong_truths`. `squares`, by client's name, float64 ``(columns,)``, are sums of squared distances from `means`.
    """
    notes, reported = [], ends_by_column(replies)
    for at, (name, mean) in enumerate(zip(columns, means.tolist(), strict=True)):
        pairs: dict[Ends, list[str]] = {}
        others = False
        for client, filled, total, low, high in reported.get(name, ()):
            own = total / filled
            variance = float(squares[client][at]) / filled - (own - mean) ** 2
            whole = low.is_integer() and high.is_integer()
            if whole and abs((high - own) * (own - low) - variance) <= _EXACT * (high - low) ** 2:
                rarer = filled * min(own - low, high - own) / ((high - low) or 1.0)
                if round(rarer) >= MIN_MEMBERS:  # fewer cells beside a constant are hardly a code, and not shown
                    pairs.setdefault((low, high), []).append(client)
            else:
                others = True
        apart = len({end for pair in pairs for end in pair}) == 2 * len(replies)  # which is a note of its own
        if len(pairs) > 1 and not others and not apart:
            said = [f"{a:.15g} and {b:.15g} at {clients_in_words(own)}" for (a, b), own in pairs.items()]
            listed = f"{', '.join(said[:-1])}, but {said[-1]}"
            notes.append(f"Column '{name}' holds {listed}; do these codes mean the same?")
    return notes


def wrong_truths(columns: Iterable[str], replies: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each column of truth values that holds numbers other than 0 to 1 at some client.

    `columns` are names of those that are truth values at some client, and numbers at others; `replies` are as for
    `fedkin.data.preparing.notes.range_notes.notes_on_ranges`.
    """
    problems, reported = [], ends_by_column(replies)
    for name in columns:
        beyond = [(client, low, high) for client, _, _, low, high in reported.get(name, ()) if low < 0 or high > 1]
        if beyond:
            where = clients_in_words([client for client, *_ in beyond])
            problems.append(
                f"Column '{name}' holds truth values at some clients, but other numbers than 0 to 1 at {where}; write "
                "it in one way, or name it in drop."
            )
    return problems


def ends_by_column(
    replies: Mapping[str, Mapping[str, Any]],
) -> dict[str, list[tuple[str, float, float, float, float]]]:
    """Return by column the clients at which it has values, how many they are, and their sum, minimum and maximum."""
    found: dict[str, list[tuple[str, float, float, float, float]]] = {}
    for client, reply in replies.items():
        sent = (reply[key].tolist() for key in ("filled", "sum", "min", "max"))
        for name, filled, total, low, high in zip(reply["names"], *sent, strict=True):
            if filled:
                found.setdefault(name, []).append((client, filled, total, low, high))
    return found
