"""Notes that know the values they are about, so that the same is not said twice of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self


class NotedValue(NamedTuple):
    """Values at an end of a column: as written, at the client of this name, and whether they are above all others."""

    column: str
    client: str
    value: str
    above: bool


class DataNote(str):
    """A sentence on data, with the values that it is about; what is written to files or sent has the sentence alone.

    A long one has a `short` form for the terminal.
    """

    noted: frozenset[NotedValue]
    short: str

    def __new__(cls, sentence: str, noted: Iterable[NotedValue] = (), short: str = "") -> Self:
        made = super().__new__(cls, sentence)
        made.noted, made.short = frozenset(noted), short or sentence
        return made

    def beside(self, known: frozenset[NotedValue]) -> list[str]:
        """Return what is left to say where other notes are on the values `known`: this note, part of it, or nothing."""
        about = {(one.column, one.client, one.value) for one in known}
        repeated = self.noted and all((one.column, one.client, one.value) in about for one in self.noted)
        return [] if repeated else [self]


def beside(notes: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return what `notes` have to say that `others` do not, where both are known to be about the same values."""
    known = frozenset(one for note in others if isinstance(note, DataNote) for one in note.noted)
    return [left for note in notes for left in (note.beside(known) if isinstance(note, DataNote) else [note])]


def short_form(note: str) -> str:
    """Return what the terminal says of a note, which reports have in full."""
    return note.short if isinstance(note, DataNote) else note
