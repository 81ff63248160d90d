"""Clients whose rows are all in one file, of which a column names the client of each row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fedkin.core.errors import FedkinError
from fedkin.data.reading.dataset import Dataset
from fedkin.data.reading.dataset_names import expanded
from fedkin.data.reading.label_columns import no_labels_after_all
from fedkin.data.reading.sources import load
from fedkin.data.reading.table_options import NO_OPTIONS, TableOptions


def clients_in_one(
    source: Any, column: str, label: str | None = None, options: TableOptions = NO_OPTIONS
) -> list[Dataset]:
    """Load one file, and return a data set per client, in order of the names in `column`, which is then no feature.

    `source`, `label` and `options` are as for `fedkin.data.reading.sources.load`. Raises FedkinError if it cannot be
    used, is a folder, or has no such column, or if a row has no name of a client.
    """
    if not isinstance(source, str | Path) or expanded(str(source)).is_dir():
        raise FedkinError(
            f"'scenario.column' is '{column}', and is for one file that has the rows of all clients; "
            f"{f'{source!r} is a folder' if isinstance(source, str | Path) else 'here each client has its own'}."
        )
    whole = load(str(source), label, cluster=column, options=options)
    if label is None and (features := no_labels_after_all([whole])):
        whole = load(str(source), cluster=column, options=replace(options, features=[*options.features, *features]))
    assert whole.clusters is not None
    index, names = whole.clusters
    whole = replace(whole, clusters=None)
    return [replace(whole.rows(index == at), name=name) for at, name in enumerate(names)]
