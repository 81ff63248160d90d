"""Errors about tables, which carry what could be read, so that all problems can be reported at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fedkin.core.errors import FedkinError, all_problems, listing
from fedkin.core.table import Table


@dataclass(frozen=True)
class ReadSoFar:
    """Readable part of a table some of whose columns could not be read.

    `table` has those that could be read, whatever their values; `unread` are the names of the others, and `left_out`
    those of columns that were dropped.
    """

    table: Table
    unread: frozenset[str] = frozenset()
    left_out: tuple[str, ...] = ()

    @property
    def names(self) -> set[str]:
        """Names of all columns except those of labels."""
        return {*self.table.names, *self.unread, *self.left_out}


_THOUSANDS = re.compile(r"[+-]?\(?[1-9]\d{0,2},\d{3}\)?", re.ASCII)
"""Numbers whose comma may separate thousands."""


class _ProblemsError(FedkinError):
    """Base of errors with a sentence for each problem, and with what could be read."""

    def __init__(self, problems: Iterable[str], read: Any) -> None:
        self.problems, self.read = list(problems), read
        super().__init__(str(all_problems(self.problems)))


class TableError(_ProblemsError):
    """Error of a table that cannot be used; of it `read` has what could be read."""

    read: ReadSoFar


class ClientsError(_ProblemsError):
    """Error of clients' data that cannot be used; `read` has, by client's name, the tables read in part."""

    read: Mapping[str, ReadSoFar]


class DecimalCommaError(FedkinError):
    """Error of a column that holds numbers with a decimal comma, such as `example`, where a point is expected."""

    def __init__(self, here: str, example: str) -> None:
        super().__init__(_decimal_comma(f"{here} holds", example, "the column"))
        self.example = example


def decimal_commas(errors: Mapping[str, DecimalCommaError], where: str) -> str:
    """Return one sentence for several columns of a table with decimal commas."""
    first, *others = errors.values()
    if not others:
        return str(first)
    named = listing([f"'{name}'" for name in errors])
    return _decimal_comma(f"Columns {named} of {where} hold", first.example, "the columns")


def _decimal_comma(hold: str, example: str, them: str) -> str:
    if _THOUSANDS.fullmatch(example):
        return (
            f"{hold} numbers with a comma, such as '{example}'; write them without it if it separates thousands, set "
            f"decimal = ',' if it stands before decimals (files with points are read all the same), or name "
            f"{them} in categorical."
        )
    return (
        f"{hold} numbers with a decimal comma, such as '{example}'; set decimal = ',' (files with points are read all "
        f"the same), or write them without commas if these separate thousands, or name {them} in categorical."
    )


def problems_of(error: FedkinError) -> list[str]:
    """Return a sentence for each problem of an error."""
    return error.problems if isinstance(error, _ProblemsError) else str(error).splitlines()
