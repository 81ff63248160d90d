"""Notes on columns of a few whole numbers, as answers are, that count from another number at one client, or to another.

They are made from what clients report anyway: numbers of cells, sums, minima and maxima.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fedkin.core.errors import listing
from fedkin.data.preparing.notes.column_notes import COLUMNS, clients_in_words, ends_by_column

_FEWEST, _CLIENTS = 20, 3
"""Cells of each client, and clients, from which on ends are no chance."""
_NARROWEST, _WIDEST = 2, 10
"""Range of answers."""
_LONGER, _MIDDLE, _NEAR = 1.7, 0.35, 0.1
"""How many times as long another scale is at least; how far up the mean of answers is at least, as that of counts is
not; and how far apart such means are at most."""


class _Scale(NamedTuple):
    """Ends of a column of whole numbers at a client, and how far up the mean is, from 0 to 1."""

    low: float
    high: float
    middle: float

    def is_other(self, usual: _Scale) -> bool:
        """Return whether this is the usual one moved by one, or as much longer as answers are more."""
        length, own = usual.high - usual.low, self.high - self.low
        if abs(self.middle - usual.middle) > _NEAR or min(self.middle, usual.middle) < _MIDDLE:
            return False
        if length == own:
            return abs(self.low - usual.low) == 1
        return self.low == usual.low and max(own / length, length / own) >= _LONGER


def notes_on_other_scales(columns: Iterable[str], replies: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return notes on columns of which one client has answers from 0 to 4, or from 1 to 10, and all others 1 to 5.

    `replies` have by client's name the ``names`` of its columns, and ``filled``, ``sum``, ``min`` and ``max`` of each.
    """
    found: dict[tuple[str, str, str], list[str]] = {}
    reported = ends_by_column(replies)
    for name in columns:
        scales = {client: _scale(*ends) for client, *ends in reported.get(name, ())}
        known = {client: own for client, own in scales.items() if own is not None}
        if len(known) < max(_CLIENTS, len(replies)):
            continue
        ends = [(own.low, own.high) for own in known.values()]
        odd = [client for client, own in known.items() if ends.count((own.low, own.high)) == 1]
        usual = next((own for client, own in known.items() if client not in odd), None)
        if len(odd) == 1 and len({*ends}) == 2 and usual is not None and known[odd[0]].is_other(usual):
            own = known[odd[0]]
            said = (odd[0], f"{own.low:.0f} to {own.high:.0f}", f"{usual.low:.0f} to {usual.high:.0f}")
            found.setdefault(said, []).append(name)
    return [_sentence(names, *said) for said, names in found.items()]


def _sentence(names: list[str], client: str, own: str, usual: str) -> str:
    quoted = listing([f"'{name}'" for name in names], COLUMNS)
    hold = f"Columns {quoted} hold" if len(names) > 1 else f"Column {quoted} holds"
    return f"{hold} {own} at {clients_in_words([client])}, but {usual} at the others; do these numbers mean the same?"


def _scale(filled: float, total: float, low: float, high: float) -> _Scale | None:
    """Return the ends of a column of a few whole numbers at a client; ``None`` of another."""
    if filled < _FEWEST or not (low.is_integer() and high.is_integer() and total.is_integer()):
        return None
    if not _NARROWEST <= high - low <= _WIDEST:
        return None
    return _Scale(low, high, (total / filled - low) / (high - low))
