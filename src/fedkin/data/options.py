"""Options for the columns of tables, where the files alone do not determine how to read them.

In a real federation each site's own file has them; what an experiment says of columns is only compared with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedkin.core.doors import current_door, toml_text
from fedkin.core.doors import option as name_of
from fedkin.core.errors import FedkinError, unknown_name

if TYPE_CHECKING:
    from fedkin.core.table import Table

AUTO, NO_ID = "auto", "none"
"""Values of `TableOptions.id` that are no names of columns."""
NO_LABELS = "none"
"""Name of a column of labels that says that there are none, whatever columns are called."""

NA_VALUES = 'texts and numbers, one or in a list such as ["unknown", -9], or such lists by column: {age = [-9]}'
"""What `TableOptions.na_values` may be, for sentences; written as TOML."""


@dataclass(frozen=True)
class TableOptions:
    """Options for the columns of tables, by name; a table without a named column is left as it is.

    Columns to `drop` are left out, also as labels. `id` names rows, and stays in the table; "auto" has it recognised,
    and "none" says that there is none. Values of `categorical` columns are names, also where they look like numbers or
    dates; `ordinal` has by column its levels in order, from the lowest. `decimal` stands before the decimals of numbers
    in text where they can be read in two ways, as 1.234; "auto" refuses such columns. `encoding` is that of CSV files
    that are not UTF-8, by a name that Python knows, such as "cp1252", and `header` is whether their first line names
    the columns. Of a workbook the first of the names in `sheet` that it has is read, by default its only sheet.
    `dayfirst` is whether the day is before the month in dates such as 03/04/2024 where no date of the column shows it.
    `na_values` stand for an empty cell, such as "unknown" or -9, in all columns or by column; they become a mapping, in
    which "" stands for all columns.

    As the clients' schema knows of new rows, `features` are no labels whatever they are called, and `levels` has by
    column the clients' categories and words for false and true, which are values whatever they are.

    Raises FedkinError if a value is of another type.
    """

    drop: str | Sequence[str] = ()
    id: str = AUTO
    categorical: str | Sequence[str] = ()
    ordinal: Mapping[str, Sequence[str]] = field(default_factory=dict)
    decimal: str = AUTO
    encoding: str = "utf-8"
    na_values: str | float | Sequence[str | float] | Mapping[str, Any] = ()
    sheet: str | Sequence[str] = ()
    dayfirst: bool | None = None
    header: bool = True
    features: Sequence[str] = ()
    levels: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for option in ("drop", "categorical", "sheet"):
            given = getattr(self, option)
            object.__setattr__(self, option, (given,) if isinstance(given, str) else _names(given, option))
        object.__setattr__(self, "id", NO_ID if self.id is None else self.id)
        if not isinstance(self.id, str):
            raise FedkinError(f"id is {self.id!r}; it should be the name of a column, 'auto' or 'none'.")
        if self.decimal not in (AUTO, ".", ","):
            raise FedkinError(f"decimal is {self.decimal!r}; allowed: '.', ',' and 'auto'.")
        if not isinstance(self.header, bool):
            raise FedkinError(f"header is {self.header!r}; allowed: true and false.")
        if not isinstance(self.dayfirst, bool | None):
            raise FedkinError(f"dayfirst is {self.dayfirst!r}; allowed: true and false.")
        if not _is_encoding(self.encoding):
            raise FedkinError(
                f"encoding is {self.encoding!r}; it should name one of text, such as 'utf-8' or 'cp1252'."
            )
        if not isinstance(self.ordinal, Mapping):
            raise FedkinError(f"ordinal is {self.ordinal!r}; it should name columns with their levels in order.")
        levels = {str(name): _names(given, f"ordinal['{name}']") for name, given in self.ordinal.items()}
        for name, own in levels.items():
            if len(own) < 2 or len(set(own)) < len(own):
                raise FedkinError(f"ordinal['{name}'] is {list(own)}; it should have two levels or more, each once.")
        object.__setattr__(self, "ordinal", levels)
        every = self.na_values if isinstance(self.na_values, Mapping) else {"": self.na_values}
        object.__setattr__(self, "na_values", {str(name): _values(given, name) for name, given in every.items()})
        if both := sorted(set(self.categorical) & set(self.ordinal)):
            raise FedkinError(
                f"Column '{both[0]}' is both in {name_of('categorical')} and in {name_of('ordinal')}; it can be in one."
            )

    @property
    def named(self) -> dict[str, str]:
        """Return every column that an option names, with the option's name."""
        named = dict.fromkeys(self.drop, "drop") | dict.fromkeys(self.categorical, "categorical")
        named |= dict.fromkeys(self.ordinal, "ordinal")
        named |= dict.fromkeys(filter(None, self.na_values_of), "na_values")
        return named if self.id in (AUTO, NO_ID) else named | {self.id: "id"}

    @property
    def no_labels(self) -> tuple[str, ...]:
        """Return the columns that are not taken for labels, whatever they are called."""
        return (*self.drop, *self.features)

    @property
    def na_values_of(self) -> Mapping[str, tuple[str | float, ...]]:
        """Return `na_values` by column, with those of all columns at ""."""
        assert isinstance(self.na_values, Mapping)
        return self.na_values

    @property
    def of_files(self) -> dict[str, Any]:
        """Return the options that new rows of the same source are read by, as plain values: all but columns' kinds."""
        na_values = {name: list(values) for name, values in self.na_values_of.items() if values}
        how: dict[str, Any] = {"decimal": self.decimal, "encoding": self.encoding, "sheet": list(self.sheet)}
        how |= {} if self.header else {"header": False}
        how |= {} if self.dayfirst is None else {"dayfirst": self.dayfirst}
        return how | {"na_values": na_values}

    def unknown(self, columns: Iterable[str]) -> list[str]:
        """Return a sentence for each named column that is not among `columns`."""
        known = set(columns)
        return [_unknown(name, at, known) for name, at in self.named.items() if name not in known]


def _unknown(name: str, option: str, known: set[str]) -> str:
    """Return a sentence on a column that an option names and no table has; several in one text should be a list."""
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and known.issuperset(parts):
        several = current_door().given(option, parts)
        return f"{name_of(option)} names one column '{name}', which does not exist; several are a list: {several}."
    return str(unknown_name(f"column in {name_of(option)}", name, known))


def _is_encoding(name: Any) -> bool:
    """Return whether Python knows an encoding of text by this name."""
    try:
        "".encode(name)
    except (LookupError, TypeError, ValueError):
        return False
    return True


def are_na_values(given: Any) -> bool:
    """Return whether `given` is what `NA_VALUES` says."""
    if isinstance(given, Mapping):
        return all(isinstance(name, str) and name and _are_values(own) for name, own in given.items())
    return _are_values(given)


def _are_values(given: Any) -> bool:
    return all(map(_is_value, given if isinstance(given, list | tuple) else [given]))


def _is_value(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""


def _values(given: Any, name: Any) -> tuple[str | float, ...]:
    """Return values that stand for an empty cell, given as one or as several."""
    single = isinstance(given, str | Mapping) or not isinstance(given, Iterable)
    several = (given,) if single else tuple(given)
    for value in several:
        if not _is_value(value):
            at = f"na_values['{name}']" if name else "na_values"
            raise FedkinError(f"{at} has {value!r}; it should have texts and numbers, such as 'unknown' or -9.")
    return several


def _names(given: Any, option: str) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise FedkinError(f"{option} is {given!r}; it should be a list of names.")
    return tuple(str(name) for name in given)


NO_OPTIONS = TableOptions()
"""Options of tables of which the files alone say how to read them."""

COLUMN_KEYS = (
    "label", "drop", "id", "categorical", "ordinal", "decimal", "encoding", "header", "sheet", "na_values", "dayfirst",
)  # fmt: skip
"""Keys of an experiment's ``[data]`` that a site's own file has, too, and that describe its columns."""
_NAMED = ("drop", "categorical", "ordinal", "na_values")
"""Those among them that name columns, of which a site must not be ignorant."""


def lines_lacking(
    asked: Mapping[str, Any], table: Table | None, options: TableOptions, named: str | None, taken: str | None
) -> list[str]:
    """Return lines, as TOML, that a site's file lacks to have its columns as an experiment says.

    `asked` is what the experiment says, by key. The site has read its `table` by its own `options`; `named` is what its
    file says of the column of labels, if anything, and `taken` the column that holds them. What is asked is compared
    with names of columns and options alone, never with values, and changes nothing. Raises FedkinError if it is not of
    the right form.
    """
    if table is None:
        return []
    label, names = asked.get("label"), set(table.names)
    wanted = TableOptions(**{key: asked[key] for key in _NAMED if key in asked})
    lines = []
    if label == NO_LABELS and named is None and taken is not None:
        lines.append(f"label = {toml_text(NO_LABELS)}")
    elif label in table.names:
        lines.append(f"label = {toml_text(label)}" if named is None else f"drop = {toml_text([label])}")
    known = {*options.drop, options.id, *options.categorical, *options.ordinal}
    for key in ("drop", "categorical"):
        if unknown := [name for name in getattr(wanted, key) if name in names - known]:
            lines.append(f"{key} = {toml_text(unknown)}")
    if levels := {name: own for name, own in wanted.ordinal.items() if name in names - known}:
        lines.append(f"ordinal = {toml_text(levels)}")
    empty = {name: own for name, own in wanted.of_files["na_values"].items() if not name or name in names}
    if empty and not options.of_files["na_values"]:
        lines.append(f"na_values = {toml_text(empty.get('', empty))}")
    return lines


def check_asked(asked: Mapping[str, Any], site: str, **read: Any) -> None:
    """Refuse to take part if lines are lacking in a site's file; raise FedkinError with them.

    `read` is what `lines_lacking` takes besides what is `asked`.
    """
    if lines := lines_lacking(asked, **read):
        raise FedkinError(
            f"Site '{site}' has columns otherwise than the experiment says; its site.toml lacks {'; '.join(lines)}.",
            public=True,
        )
