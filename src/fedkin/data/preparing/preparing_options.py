"""Options of the preparation of a federation's data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

import numpy as np

from fedkin.core.errors import FedkinError, listing, unknown_name
from fedkin.data.preparing.column_reports import MIN_MEMBERS
from fedkin.data.reading.table_options import AUTO

Imputation = Literal["neighbours", "median"]
_Scaling = Literal["auto", "standard", "none"]
_Lacking = Literal["drop", "impute"]
_CHOICES = {
    name: sorted(get_args(of))
    for name, of in (("scaling", _Scaling), ("lacking", _Lacking), ("imputation", Imputation))
}


@dataclass(frozen=True)
class PreparingOptions:
    """Options of the preparation of data.

    By `scaling` "auto" data that all lie in [0, 1] are left alone, columns that share one unit, such as pixels, are
    divided by one scale, and each column of others is standardised, where a few values far from all others count as a
    limit; not with secure sums, for it needs minimum and maximum. "standard" always standardises, without limits, and
    "none" leaves numbers as they are. `id` is the column of tables that names rows: its name, "auto" to recognise it,
    or "none". `lacking` is what happens to a column that a client lacks, or of which all its cells are empty, or more
    than half of all clients' cells.

    By `imputation` "neighbours" empty cells take the mean of the five most similar rows of the same client, and in new
    rows that of the nearest cluster; by "median" the median or most frequent value of all clients. A row affects others
    by "neighbours", so methods with differential privacy take "median". With `indicator` a column with empty cells gets
    an indicator of these, which shares the column's weight. `min_members`, at least 5, are samples of one client that a
    category needs for its name to leave the client; others are pooled. `private` is whether the method is
    differentially private, which what clients send here is not.
    """

    scaling: _Scaling = "auto"
    id: str = AUTO
    lacking: _Lacking = "drop"
    imputation: Imputation = "neighbours"
    indicator: bool = False
    min_members: int = MIN_MEMBERS
    private: bool = False

    def __post_init__(self) -> None:
        """Check the options. Raises FedkinError if one has another type or is unknown."""
        for name, choices in _CHOICES.items():
            given = getattr(self, name)
            if not isinstance(given, str):
                raise FedkinError(f"{name} is {given!r}; allowed: {listing(choices)}.")
            if given not in choices:
                raise unknown_name(name, given, choices)
        if not isinstance(self.indicator, bool | np.bool_):
            raise FedkinError(f"indicator is {self.indicator!r}; it should be true or false.")
        object.__setattr__(self, "indicator", bool(self.indicator))

    def of(self, *, private: bool) -> Self:
        """Return the options for a method that is differentially private for one sample, or is not."""
        return replace(self, imputation="median", private=True) if private else self
