"""What an experiment says of columns, against what a site's own file says of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedkin.core.errors import FedkinError
from fedkin.core.options import toml_text
from fedkin.core.table import Table
from fedkin.data.reading.dataset import NO_LABELS
from fedkin.data.reading.table_options import TableOptions

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
