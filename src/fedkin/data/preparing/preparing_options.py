"""Options of the preparation of data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

from fedkin.data.preparing.column_reports import MIN_MEMBERS
from fedkin.data.preparing.imputation import Imputation
from fedkin.data.reading.table_options import AUTO


@dataclass(frozen=True)
class PreparingOptions:
    """Options of the preparation of data.

    Attributes
    ----------
    scaling : {"auto", "standard", "none"}
        "auto" leaves data alone that all lie in [0, 1], divides columns that share one unit, such as pixels, by one
        scale, and standardises each column of others, in which a few values far from all others count as a limit; not
        with secure sums, for it needs minimum and maximum. "standard" always standardises, without limits. "none"
        leaves numbers as they are.
    id : str
        The column of tables that names rows: its name, "auto" to recognise it, or "none".
    lacking : {"drop", "impute"}
        What happens to a column that a client lacks, or of which all its cells are empty, or more than half of all
        clients' cells.
    imputation : {"neighbours", "median"}
        What empty cells take: the mean of the five most similar rows of the same client, or the median or most frequent
        value of all clients, as empty cells of new rows always do. A row affects others by "neighbours", so methods
        with differential privacy take "median".
    indicator : bool
        Whether a column with empty cells gets an indicator of these. It shares the column's weight.
    min_members : int
        Samples of one client that a category needs for its name to leave the client, at least 5; others are pooled.
    """

    scaling: Literal["auto", "standard", "none"] = "auto"
    id: str = AUTO
    lacking: Literal["drop", "impute"] = "drop"
    imputation: Imputation = "neighbours"
    indicator: bool = False
    min_members: int = MIN_MEMBERS

    def of(self, *, private: bool) -> Self:
        """Return the options for a method that is differentially private for one sample, or is not."""
        return replace(self, imputation="median") if private else self
