"""Errors about tables, which carry what could be read, so that all problems can be reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fedkin.core.errors import FedkinError, all_problems
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


def problems_of(error: FedkinError) -> list[str]:
    """Return a sentence for each problem of an error."""
    return error.problems if isinstance(error, _ProblemsError) else str(error).splitlines()
