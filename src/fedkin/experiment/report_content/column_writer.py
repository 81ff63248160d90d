"""Texts of a column's means in its own unit, with the digits that its standard deviation justifies."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence

from fedkin.core.table import MEASURED
from fedkin.data.schema import SchemaColumn

_SMALLEST, _LARGEST = -4, 8
"""Exponents of a column's spread between which its numbers are written out, and not as powers of ten."""
_MANY_DIGITS = 1e15
"""Above it floats are not exact to one."""
_FAR_SMALLER, _NONE = 0.1, 1e-6
"""Parts of a column's standard deviation below which that of a cluster counts on its own, or as none."""
_YEAR = re.compile(
    r"(?i:(^|[_\W])(year|yr|jahr|baujahr|année|annee|año|anno)s?([_\W]|$))|Year\b|(^|[a-z])(Year|Yr)[A-Z]"
)
"""Names of columns of years, which have no thousands."""
_FIRST, _LAST, _YEARS = 1850, 2100, 40
"""Years that a column of any name holds, if its values scatter within so many; whole ones are written."""
_EPOCH = datetime.datetime(1970, 1, 1)


class ColumnWriter:
    """Format means of a column in its own unit, with the digits that its standard deviation justifies.

    A cluster's mean has those of the cluster's own if that is far smaller, as where one client has another unit.
    """

    def __init__(self, column: SchemaColumn, spread: float, mean: float = 0.0) -> None:
        self.kind, self.levels, self.spread = column.kind, column.categories, spread
        seems_year = column.kind == "number" and mean - spread >= _FIRST and mean + spread <= _LAST and spread <= _YEARS
        self.is_year = seems_year or _YEAR.search(column.name) is not None

    def __call__(self, value: float, scatter: float = math.inf) -> str:
        if self.kind == "boolean":
            return f"{value:.0%}"
        if self.kind == "date":
            try:
                return (_EPOCH + datetime.timedelta(days=value)).date().isoformat()
            except OverflowError:
                return f"day {value:.0f}"
        if self.kind == "ordinal" and self.levels:
            nearest = min(max(round(value), 0), len(self.levels) - 1)
            return f"{self.levels[nearest]}, {value + 1:.1f} of {len(self.levels)}"
        written = self.rounded(value, self.digits_of(scatter))
        if self.is_year and self.kind == "number" and self.digits_of(scatter) >= 1:
            return f"{value:.0f}"
        return written.replace(",", "") if self.is_year else written

    def rounded(self, value: float, spread: float) -> str:
        """Round a value to the digits that a standard deviation justifies."""
        return _rounded(value, spread)

    def after(self, value: float, scatter: float) -> str:
        """Return what stands after a mean in a cell: how values scatter, or which truth value is counted."""
        digits = self.digits_of(scatter)
        scatter = scatter if digits > 0 else 0.0
        if self.kind == "boolean":
            return f" {true_level(self.levels)}"
        if self.kind not in MEASURED:
            return ""
        return f" ± {_rounded(scatter, digits)}{' days' if self.kind == 'date' else ''}"

    def sides(self, written: str, usual: str, how: str = "") -> str:
        """Return two means in brackets."""
        return f"({written} against {usual}{how})"

    def digits_of(self, scatter: float) -> float:
        """Return the standard deviation that justifies the digits of a mean of values with `scatter`."""
        if not scatter < _FAR_SMALLER * self.spread:
            return self.spread
        return scatter if scatter > _NONE * self.spread else 0.0


def true_level(levels: Sequence[str]) -> str:
    """Return what the second of two truth values is called."""
    return levels[-1] if levels else "true"


def _rounded(value: float, spread: float) -> str:
    """Round a number to the digits that a standard deviation justifies: two significant ones of the deviation."""
    if spread <= 0 or not math.isfinite(spread):
        return f"{value:,.0f}" if value == round(value) and abs(value) < _MANY_DIGITS else f"{value:.6g}"
    exponent = math.floor(math.log10(spread))
    rounded = round(value, 1 - exponent) + 0.0  # never -0
    if _SMALLEST <= exponent < _LARGEST:
        return f"{rounded:,.{max(1 - exponent, 0)}f}"
    if rounded == 0:
        return "0"
    return f"{rounded:.{max(math.floor(math.log10(abs(rounded))) - exponent + 1, 0)}e}"
