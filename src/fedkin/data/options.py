"""Options for the columns of tables: how they are read, where files alone do not say it, and how they are prepared.

In a real federation each site's own file has those for reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self, get_args

from annotated_types import Ge, MinLen
from pydantic import BeforeValidator

from fedkin.core.client import SampleEncoder
from fedkin.core.errors import FedkinError, unknown_name
from fedkin.core.errors import option as name_of
from fedkin.core.method import Method, hints_of

AUTO, NO_ID = "auto", "none"
"""Values of `TableOptions.id` that are no names of columns."""
NO_LABELS = "none"
"""Name of a column of labels that says that there are none, whatever columns are called."""
MIN_MEMBERS = 5
"""Samples of a client that a category needs for its name to leave the client."""

Imputation = Literal["neighbours", "median"]
Name = Annotated[str, MinLen(1)]


def _as_list(value: Any) -> Any:
    """Return a list of a single name or number; ``[a]``, a list whose quotation marks the shell took, is refused."""
    is_single = isinstance(value, str | int | float) and not isinstance(value, bool)
    return [value] if is_single and not str(value).startswith("[") else value


Names = Annotated[list[Name], BeforeValidator(_as_list)]
"""Names in a list, or a single one."""
_Values = Annotated[list[Name | int | float], BeforeValidator(_as_list)]
NaValues = dict[Name, _Values] | _Values


@dataclass(frozen=True)
class TableOptions:
    """Options for the columns of tables, by name; a table without a named column is read as it is.

    They are declared here once: files of experiments and sites, the command line and estimators take them from here, as
    pydantic reads these types. Lists may be single names here, and any sequences. Raises FedkinError if a value is of
    another type.

    Attributes
    ----------
    drop : list of str
        Columns that are left out, also as labels.
    id : str
        The column that names rows, which stays in the table; "auto" recognises it, "none" says that there is none.
    categorical : list of str
        Columns whose values are names, also where they look like numbers or dates.
    ordinal : dict of str to list of str
        By column, its levels in order, from the lowest.
    decimal : {"auto", ".", ","}
        What stands before decimals of numbers in text that can be read in two ways, as 1.234; "auto" refuses these,
        unless commas separate the cells of a file.
    encoding : str
        Encoding of CSV files that are not UTF-8, as Python names it, such as "cp1252".
    na_values : list of str or number, or dict of str to such a list
        Values that stand for an empty cell, such as "unknown" or -9, in all columns or by column. They become a
        mapping, in which "" stands for all columns.
    sheet : str or None
        The sheet of workbooks that hold several.
    text : list of str
        Columns of free text, which an encoder embeds; others are recognised by texts that are nearly all different
        and mostly of four words and more.
    encoder : SampleEncoder or None
        What turns images, texts and series into numbers.
    features : list of str
        Of new rows: columns that are no labels whatever they are called.
    scaling : {"auto", "standard", "none"}
        By "auto" data that all lie in [0, 1] are left alone, columns that share one unit, such as pixels, are divided
        by one scale, and each column of others is standardised, where a few values far from all others count as a
        limit; not with secure sums, for it needs minimum and maximum. "standard" always standardises, without limits,
        and "none" leaves numbers as they are.
    imputation : {"neighbours", "median"}
        What empty cells take: the mean of the five most similar rows of the same client, and in new rows that of the
        nearest cluster; or the median or most frequent value of all clients. A row affects others by "neighbours", so
        methods with differential privacy take "median".
    min_members : int
        Samples of one client that a category needs for its name to leave the client, at least 5; others are pooled.
    private : bool
        Whether the method is differentially private, which what clients send for the preparation is not.
    """

    drop: Names = field(default_factory=list)
    id: Name = AUTO
    categorical: Names = field(default_factory=list)
    ordinal: dict[Name, list[Name]] = field(default_factory=dict)
    decimal: Literal["auto", ".", ","] = "auto"
    encoding: Name = "utf-8"
    na_values: NaValues = field(default_factory=list)
    sheet: Name | None = None
    text: Names = field(default_factory=list)
    encoder: SampleEncoder | None = None
    features: Sequence[str] = ()
    scaling: Literal["auto", "standard", "none"] = "auto"
    imputation: Imputation = "neighbours"
    min_members: Annotated[int, Ge(MIN_MEMBERS)] = MIN_MEMBERS
    private: bool = False

    def __post_init__(self) -> None:
        changed: dict[str, Any] = {"id": str(self.id or NO_ID)}  # estimators take None
        for name in ("drop", "categorical", "text"):
            changed[name] = list(map(str, _listed(getattr(self, name), name)))
        for name in ("ordinal", "na_values"):
            value = getattr(self, name)
            by_column = value if isinstance(value, Mapping) else {"": value}
            changed[name] = {str(column): _listed(items, name) for column, items in by_column.items()}
        changed["ordinal"] = {column: list(map(str, levels)) for column, levels in changed["ordinal"].items()}
        for name, value in changed.items():
            object.__setattr__(self, name, value)
        for name in ("decimal", "scaling", "imputation"):
            choices = get_args(hints_of(type(self))[name])
            if (value := getattr(self, name)) not in choices:
                raise unknown_name(name, str(value), choices)
        try:
            "text".encode(self.encoding)
        except LookupError as error:
            raise FedkinError(f"encoding is '{self.encoding}'; it should be one that Python has, as cp1252.") from error
        for name, levels in self.ordinal.items():
            if len(levels) < 2 or len(set(levels)) < len(levels):
                raise FedkinError(f"ordinal['{name}'] is {list(levels)}; it should have two levels or more, each once.")

    def of(self, method: Method[Any]) -> Self:
        """Return the options by which a method's samples are prepared.

        Those of an encoder are not scaled by default, and where the method is differentially private for one sample,
        none affects another.
        """
        encodes = method.encodes_samples() and self.scaling == "auto"
        options = replace(self, scaling="none") if encodes else self
        return replace(options, imputation="median", private=True) if method.guards_samples() else options

    @property
    def na_values_of(self) -> Mapping[str, Sequence[str | float]]:
        """Return `na_values` by column, with those of all columns at ""."""
        assert isinstance(self.na_values, Mapping)
        return self.na_values

    @property
    def of_files(self) -> dict[str, Any]:
        """Return the options that new rows of the same source are read by, as plain values: all but columns' kinds."""
        na_values = {name: list(values) for name, values in self.na_values_of.items() if values}
        reading: dict[str, Any] = {"decimal": self.decimal, "encoding": self.encoding, "na_values": na_values}
        reading |= {"sheet": self.sheet} if self.sheet else {}
        return reading if self.encoder is None else {**reading, "encode": self.encoder.name}

    def unknown(self, columns: Iterable[str]) -> list[str]:
        """Return a sentence for each column that an option names and is not among `columns`."""
        named = {name: key for key in ("drop", "categorical", "ordinal", "text") for name in getattr(self, key)}
        named |= {name: "na_values" for name in self.na_values_of if name}
        named |= {} if self.id in (AUTO, NO_ID) else {self.id: "id"}
        columns = set(columns)
        return [
            str(unknown_name(f"column in {name_of(key)}", name, columns))
            for name, key in named.items()
            if name not in columns
        ]


def _listed(value: Any, option: str) -> list[Any]:
    """Return names or numbers, or a single one, as a list; raise FedkinError for anything else."""
    values = [value] if isinstance(value, str | Mapping) or not isinstance(value, Iterable) else list(value)
    if any(isinstance(item, bool) or not isinstance(item, str | int | float) or item == "" for item in values):
        raise FedkinError(f"{option} has {value!r}; it should have names or numbers, such as 'unknown' or -9.")
    return values


NO_OPTIONS = TableOptions()
"""Options of tables of which the files alone say how to read them."""


PREPARING = ("scaling", "imputation", "min_members")
"""Options that say how columns are prepared; an experiment has them, and no site."""
COLUMN_KEYS = (
    "label", "drop", "id", "categorical", "ordinal", "decimal", "encoding", "sheet", "na_values", "text",
)  # fmt: skip
"""Keys of an experiment's ``[data]`` that a site's own file has, too, and that describe its columns."""
