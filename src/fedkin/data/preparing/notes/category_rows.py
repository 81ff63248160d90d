"""Which categories clients share and which they do not, by numbers of rows: names alone are too few if all are rare."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

_STRAY, _CHANCE = 0.1, 1e-3
"""A client that has so many times fewer rows in categories of the others than these has none in common, unless no row
would be as probable as this."""
_FEWEST, _PART, _TIMES, _ALL = 10, 0.1, 2.0, 1e-5
"""Rows from which on a client says something; part of each client's rows in categories of its own side, at least, ratio
of these parts at most, and probability that all such rows are on their side, if both write the same in other words."""


class CategoryRows(NamedTuple):
    """Numbers of rows at a client by category, all of which some client has named, and in all, others included."""

    of: Mapping[str, float]
    filled: float

    def part(self, names: Collection[str]) -> float:
        """Return the part of the rows in some categories."""
        return sum(self.of.get(name, 0.0) for name in names) / max(self.filled, 1.0)


class Renamed(NamedTuple):
    """Clients that have categories which no other has, and lack those which all others have; frequent ones first."""

    clients: tuple[str, ...]
    own: tuple[str, ...]
    lacking: tuple[str, ...]


def rows_by_column(
    categories: Mapping[str, Sequence[str]], counts: Mapping[str, Mapping[str, Tensor]]
) -> dict[str, dict[str, CategoryRows]]:
    """Return rows by column and client, given the columns' `categories`, and counts by client and column.

    These are ``(categories + 1,)``; the last is the number of rows in others.
    """
    return {
        column: {
            client: CategoryRows(dict(zip(names, own[column].tolist(), strict=False)), float(own[column].sum()))
            for client, own in counts.items()
        }
        for column, names in categories.items()
    }


def are_apart(clients: Collection[str], named: Mapping[str, Sequence[str]], rows: Mapping[str, CategoryRows]) -> bool:
    """Return whether clients have hardly a row in a category that others have named, and not by chance.

    Of a table that is divided at random, each part may name others of many rare ones. Without `rows` they are apart.
    """
    if not rows:
        return True
    others = {name for client, own in named.items() if client not in clients for name in own}
    filled = sum(own.filled for client, own in rows.items() if client not in clients)
    part = sum(own.part(others) * own.filled for client, own in rows.items() if client not in clients) / max(filled, 1)
    return all(
        rows[client].part(others) <= _STRAY * part and (1 - part) ** rows[client].filled <= _CHANCE
        for client in clients
    )


def renamed(rows: Mapping[str, CategoryRows]) -> Renamed | None:
    """Return the clients, fewer than the others, that seem to write some frequent categories in other words.

    They, and nobody else, have some; the others, and all of these, have some instead; and at each client about as many
    rows are in these, a tenth or more, and more than by chance. Of two clients each must have equally many. Other
    categories may be common to all.
    """
    known = {client: own for client, own in rows.items() if own.filled >= _FEWEST}
    having: dict[frozenset[str], list[str]] = {}
    for name in dict.fromkeys(name for own in known.values() for name in own.of):
        having.setdefault(frozenset(client for client, own in known.items() if own.of.get(name)), []).append(name)
    for clients in having:
        others = frozenset(known) - clients
        if not clients or others not in having or len(clients) > len(others):
            continue
        own, lacking = (_most_first(having[side], known) for side in (clients, others))
        parts = [[known[client].part(names) for client in side] for side, names in ((clients, own), (others, lacking))]
        means = [sum(side) / len(side) for side in parts]
        if min(map(min, parts)) < _PART or max(means) > _TIMES * min(means):
            continue
        filled = [sum(known[client].filled for client in side) for side in (clients, others)]
        if math.prod((rows / sum(filled)) ** (rows * mean) for rows, mean in zip(filled, means, strict=True)) > _ALL:
            continue
        if len(known) > 2 or len(own) == len(lacking):
            return Renamed(tuple(client for client in known if client in clients), own, lacking)
    return None


def _most_first(names: Sequence[str], rows: Mapping[str, CategoryRows]) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: -sum(own.of.get(name, 0.0) for own in rows.values())))
