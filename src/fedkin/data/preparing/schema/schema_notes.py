"""Columns that are left out of the clients' schema, as those that say where a row is from, and notes on columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from torch import Tensor

from fedkin.core.errors import listing
from fedkin.data.preparing.column_reports import ColumnReport
from fedkin.data.reading.id_columns import is_called_id, is_called_recurring, is_called_whose

_CODE = re.compile(
    r"(?i:(^|[_\W])(zip|plz|postleitzahl|(zip|post|postal)[_ -]?code|code|code[_ -]?postal|mcc|blz|naics|filiale)s?"
    r"([_\W]?\d)?$|[^\W\d_]{3}[_ -]?(nr|nummer|number)$)"
    r"|[a-z](Zip|Plz|PLZ|Code|Postcode)$"
)
_PERSON = re.compile(
    r"(?i:(^|[_\W])((first|last|full|given|family|middle|maiden|person|patient|doctor|physician|staff|customer|user)[_\W]?names?"
    r"|surnames?|forenames?|vornamen?|nachnamen?|familiennamen?|prenom|prénom|nombre|apellidos?)$)"
    r"|(First|Last|Full|Given|Family|Middle|Maiden|Patient)Name$"
)
"""Names of columns of names of persons; that of one called name alone may be of anything."""
_PAIRS, _COMPARED, _PLACES = 5, 200, 8
"""Pairs of columns of which there are notes, columns that are compared for them, and columns that a note names."""
_SPELLINGS = 4
"""Groups of columns spelt alike that a note names."""
_MARKED, _MARK = 5, 3
"""Columns of marks that a note names, and characters of a mark."""


def note_on_marks(names: Sequence[str]) -> list[str]:
    """Return a note on columns that hold one mark, such as x, and empty cells, as boxes to tick do."""
    if not names:
        return []
    quoted = listing([f"'{name}'" for name in names], _MARKED)
    return [f"Empty cells of {quoted} count as unknown, not as no; if they mean no, write no in them."]


def marks(partial: Mapping[str, Mapping[int, ColumnReport]], held_by_all: Collection[str]) -> list[str]:
    """Return which columns, by the reports of clients with values, hold one mark at these and are empty at others."""
    return [
        name
        for name, own in partial.items()
        if name in held_by_all and {report.kind for report in own.values()} == {"category"}
        and len(levels := {level for report in own.values() for level in report.categories}) == 1
        and len(min(levels)) <= _MARK
    ]  # fmt: skip


def notes_on_absent(nowhere: Sequence[str], absent: Mapping[str, Sequence[str]]) -> list[str]:
    """Return notes on columns that are empty at all clients, and on those that are `absent` at some, by these."""
    notes = []
    if nowhere:
        notes.append(f"{_columns(nowhere)} empty at all clients, so {_left_out(nowhere)}.")
    for where, names in absent.items():
        them = "it" if len(names) == 1 else "them"
        notes.append(
            f"{_columns(names)} empty or absent at {where}, so {_left_out(names)}; lacking = 'impute' keeps {them}."
        )
    return notes


def note_on_unused(run: str, names: Sequence[str]) -> list[str]:
    """Return a note for a site on columns of its table that a run left out, if any."""
    if not names:
        return []
    which, unused = "column" if len(names) == 1 else "columns", [f"'{name}'" for name in names]
    return [
        f"Run {run} leaves out {which} {listing(unused, _PLACES)} of this site; the server's log and report say why."
    ]


def note_on_recurring_ids(numbers: Iterable[str]) -> list[str]:
    """Return a note on columns of numbers that are called like the id of a person or thing, but come too often."""
    names = [f"'{name}'" for name in numbers if is_called_recurring(name)]
    if not names:
        return []
    some = len(names) > 1
    called = f"s {listing(names)} are called like ids" if some else f" {names[0]} is called like an id"
    are = f"Column{called}, but {'their' if some else 'its'}"
    them, it = ("them", "they are") if some else ("it", "it is")
    return [f"{are} values come again and again, so {it} taken for numbers; name {them} in drop or categorical."]


def note_on_persons(categories: Iterable[str]) -> list[str]:
    """Return a note on columns of categories that are called like names of persons, such as ``last_name``."""
    names = [f"'{name}'" for name in categories if _PERSON.search(name)]
    if not names:
        return []
    called, them = ("s {} are", "them") if len(names) > 1 else (" {} is", "it")
    return [
        f"Column{called.format(listing(names, _PLACES))} called like names of persons, and the frequent ones leave the "
        f"clients and count as features of samples; name {them} in drop."
    ]


def note_on_coded_numbers(numbers: Iterable[str], replies: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a note on columns of numbers that are called like codes, such as ``zip``, and have equally many digits.

    `replies` have by client's name the ``names`` of its columns, and ``filled``, ``min`` and ``max`` of each.
    """
    names = [f"'{name}'" for name in numbers if _CODE.search(name) and _has_equal_digits(name, replies)]
    if not names:
        return []
    if len(names) == 1:
        which, them = f"Column {names[0]} is called like a code, but holds numbers, so that near ones are alike", "it"
    else:
        which = f"Columns {listing(names)} are called like codes, but hold numbers, so that near ones are alike"
        them = "them"
    return [f"{which}; name {them} in categorical or drop."]


def _has_equal_digits(name: str, replies: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether a column's minima and maxima are whole numbers of equally many digits, three or more."""
    ends = [
        end
        for reply in replies.values()
        if name in reply["names"] and reply["filled"][reply["names"].index(name)]
        for end in (float(reply[key][reply["names"].index(name)]) for key in ("min", "max"))
    ]
    digits = {len(str(int(end))) for end in ends if end.is_integer() and end > 0}
    return bool(ends) and all(end.is_integer() and end > 0 for end in ends) and len(digits) == 1 and min(digits) >= 3


def notes_on_complements(partial: Mapping[str, Mapping[int, ColumnReport]], clients: int) -> list[str]:
    """Return a note for two columns with common categories of which each client has one: two names of one, probably."""
    known = {name: {level for report in own.values() for level in report.categories} for name, own in partial.items()}
    pairs = [
        (one, other)
        for one, other in combinations([name for name in partial if known[name]][:_COMPARED], 2)
        if known[one] & known[other] and not partial[one].keys() & partial[other].keys()
        and len(partial[one]) + len(partial[other]) == clients
    ]  # fmt: skip
    return [
        f"Columns '{one}' and '{other}' have common categories, and no client has both; give them one name if they are "
        "the same."
        for one, other in pairs[:_PAIRS]
    ]


def notes_on_truths(truths: Mapping[str, Sequence[str]]) -> list[str]:
    """Return notes on columns that are truth values at some clients and numbers at others, by what is where."""
    notes = []
    for said, names in truths.items():
        quoted = [f"'{name}'" for name in names]
        which = f"Column {quoted[0]} differs" if len(names) == 1 else f"Columns {listing(quoted)} differ"
        notes.append(f"{which} in kind: {said}; 1 counts as true.")
    return notes


def _columns(names: Sequence[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    return f"Column {quoted[0]} is" if len(names) == 1 else f"Columns {listing(quoted)} are"


def _left_out(names: Sequence[str]) -> str:
    return "it is left out" if len(names) == 1 else "they are left out"


def note_on_spellings(groups: Sequence[Sequence[str]], drops: bool) -> list[str]:
    """Return a note on groups of columns whose names differ only in spelling, and are probably the same."""
    if not (alike := [" and ".join(f"'{name}'" for name in own) for own in groups]):
        return []
    gone = ", so those that a client lacks are left out" if drops else ""
    return [
        f"Columns {listing(alike, _SPELLINGS)} differ in spelling alone and count as different{gone}; give them one "
        "name if they are the same."
    ]


def notes_on_ids(ids: Sequence[str], texts: Sequence[str], numbers: Collection[str]) -> list[str]:
    """Return a note on the column that names the rows, and one on others whose values are nearly all different.

    Those that are called like the id of a person or customer may come again, and have a note of their own. Only those
    that are `numbers` can be features: no category of the others is frequent enough to leave a client.
    """
    notes = [
        f"Column '{name}' names the rows, so it is no feature{_keeps([name], numbers)}."
        for name in ids
        if not is_called_whose(name)
    ]
    if whose := [name for name in (*ids, *texts) if is_called_whose(name)]:
        quoted = listing([f"'{name}'" for name in whose], _PLACES)
        said = f"Column {quoted} names the rows or says whose they are, so it is no feature"
        if len(whose) > 1:
            said = f"Columns {quoted} name the rows or say whose they are, so they are no features"
        notes.append(f"{said}{_keeps(whose, numbers)}.")
    if others := [name for name in texts if not is_called_whose(name)]:
        notes.append(
            f"{_columns(others)} different in nearly every row, so {_left_out(others)}{_keeps(others, numbers)}."
        )
    return notes


def _keeps(names: Sequence[str], numbers: Collection[str]) -> str:
    """Return the end of a sentence on columns that are left out: how to keep them, or what else to compare."""
    kept = [f"'{name}'" for name in names if name in numbers]
    if len(kept) == len(names):
        return f"; id = 'none' keeps {'it' if len(names) == 1 else 'them'}"
    if kept:
        return f"; id = 'none' keeps {listing(kept, _PLACES)}"
    if any(map(is_called_id, names)):
        return ""
    return "; to compare such texts, give numbers made of them, such as embeddings, as columns"


def note_on_rare(names: Sequence[str]) -> list[str]:
    """Return a note on columns none of whose values is frequent enough at a client for its name to leave it."""
    if not names:
        return []
    quoted = listing([f"'{name}'" for name in names], _PLACES)
    which = f"Column {quoted} has" if len(names) == 1 else f"Columns {quoted} have"
    return [f"{which} no value that is frequent enough at any client, so {_left_out(names)}."]


def note_on_only_column(names: Sequence[str], features: Collection[str]) -> list[str]:
    """Return a note if a single one of three or more `features`, which are all columns but the id, is compared."""
    if len(names) != 1 or len(features) < 3:
        return []
    return [f"Only '{names[0]}' is compared: every other column is left out."]


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
    quoted = listing([f"'{name}'" for name in names], _PLACES)
    has, says, them = f"Column {quoted} has", "it says where a row comes from and is", "it"
    if len(names) > 1:
        has, says, them = f"Columns {quoted} have", "they say where a row comes from and are", "them"
    return (
        f"{has} one value at each client and another at every other, so {says} left out; name {them} in categorical to "
        f"keep {them}."
    )
