"""Sentences on columns that hold something else at one client than at another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedkin.core.errors import listing
from fedkin.data.preparing.column_reports import ColumnReport
from fedkin.data.reading.cells import LEADING_ZERO, NUMBER


def kinds_in_words(reports: Mapping[int, ColumnReport], names: Mapping[int, str]) -> str:
    """Return which kind a column is at which clients, given their reports and names."""
    having: dict[str, list[int]] = {kind: [] for kind in sorted({own.kind for own in reports.values()})}
    for client, own in reports.items():
        having[own.kind].append(client)
    return "; ".join(f"{kind}{_such_as(reports, kind)} at {listed_clients(own, names)}" for kind, own in having.items())


def advice_on_kinds(reports: Mapping[int, ColumnReport]) -> str:
    """Return what to do with a column whose kinds differ, in sentences with places for it, its and has."""
    kinds = {own.kind for own in reports.values()}
    levels = _levels(reports)
    if {"category", "number"} == kinds and levels and all(map(LEADING_ZERO.match, levels)):
        return "Numbers with leading zeros are codes, so name {it} in categorical, or in drop."
    if kinds == {"category", "ordinal"}:
        return "Name {its} levels in ordinal, from the lowest to the highest, or write {it} in one way."
    if "number" in kinds and kinds <= {"category", "ordinal", "number"}:
        return (
            "Write {it} in one way, as numbers if {its} values have an order; name {it} in categorical only if {its} "
            "numbers are codes, or in drop."
        )
    if kinds == {"date", "number"}:
        return (
            "Write {it} in one way, as dates such as 2024-12-31 (numbers such as 45657 are days as Excel counts them), "
            "or name {it} in drop."
        )
    return "Write {it} in one way, or name {it} in categorical, or in drop."


def sentences_on_kinds(unlike: Mapping[tuple[str, str], Sequence[str]]) -> list[str]:
    """Return a sentence on columns for each pair of `kinds_in_words` and `advice_on_kinds`."""
    sentences = []
    for (said, advice), names in unlike.items():
        quoted, one = [f"'{name}'" for name in names], len(names) == 1
        which = f"Column {quoted[0]} differs" if one else f"Columns {listing(quoted)} differ"
        wanted = advice.format(it="it" if one else "them", its="its" if one else "their")
        sentences.append(f"{which} in kind: {said}. {wanted}")
    return sentences


def listed_clients(clients: Sequence[int], names: Mapping[int, str], of: int | None = None) -> str:
    """Return clients by name for a sentence, of which only the first few are named."""
    called = [names.get(client, str(client)).removeprefix("Client ") for client in clients]
    shown = listing(called, 5)
    plural = "client" if len(called) == 1 else "clients"
    return f"{plural} {shown}" if of is None else f"{len(called)} of {of} clients ({shown})"


def _levels(reports: Mapping[int, ColumnReport]) -> list[str]:
    """Return the known categories that are no numbers, or have leading zeros, or else all."""
    levels = [level for own in reports.values() if own.kind == "category" for level in own.categories]
    words = [level for level in levels if not NUMBER.fullmatch(level)]
    return words or [level for level in levels if LEADING_ZERO.match(level)] or levels


def _such_as(reports: Mapping[int, ColumnReport], kind: str) -> str:
    """Return an example of a category, where clients report any; of texts beside numbers one that is no number."""
    levels = _levels(reports) if kind == "category" else []
    has_numbers = kind == "category" and any(own.kind == "number" for own in reports.values())
    if has_numbers and not levels:
        return " of texts, or of numbers with leading zeros"
    if has_numbers and NUMBER.fullmatch(levels[0]) and not LEADING_ZERO.match(levels[0]):
        return " with texts beside numbers"
    return f" such as '{levels[0]}'" if levels else ""
