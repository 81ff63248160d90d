"""CSV files with the cluster of each sample, one file per client, named after the client's data file."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from torch import Tensor

from fedkin.core import Client
from fedkin.core.files import write_atomically
from fedkin.core.table import Table
from fedkin.data.population import short_names
from fedkin.data.preparation import id_of
from fedkin.data.schema import with_names

FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""How formulas begin; wide signs do so in some spreadsheets, too."""
_UNSAFE = re.compile(r"[^\w.@+ -]")
_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])( *\..*)?", re.IGNORECASE)
"""Names of devices, which Windows opens in place of a file, whatever the ending."""
_LONGEST = 255 - len(".csv.partial")
"""Bytes of a name: file systems hold 255, also of a file that is being written."""


def label_file(folder: Path, client: int, names: Sequence[str] = ()) -> Path:
    """Return the path of a client's clusters in the run's `folder`: ``labels/north.csv`` for ``north.csv``.

    It is ``labels/client-3.csv``, or ``_client-3.csv``, if clients have no names, or where this one's makes no file
    name that every system holds and no other client has. Characters that a file name cannot hold become underscores.
    """
    safe = [_UNSAFE.sub("_", unicodedata.normalize("NFC", name)).strip(". ") for name in short_names(names)]
    own = safe[client] if client < len(safe) else ""
    taken = Counter(map(str.casefold, safe))
    too_long = len(own.encode(errors="replace")) > _LONGEST
    if not own or too_long or _RESERVED.fullmatch(own) or taken[own.casefold()] > 1:
        own = f"client-{client}"
        while own in taken:  # another client is called so
            own = f"_{own}"
    return folder / "labels" / f"{own}.csv"


def write_labels(folder: Path, clients: Iterable[Client], names: Sequence[str] = ()) -> None:
    """Write the cluster of every row, for each client with ``state["clusters"]``."""
    for client in clients:
        if (text := labels_of(client.table, client.state)) is not None:
            write_atomically(label_file(folder, client.id, names), text)


def labels_of(table: Table | None, state: Mapping[str, Tensor]) -> str | None:
    """Return a client's clusters as CSV text; ``None`` if it has none.

    Columns are ``row``, that of the id of the `table` under its own name, ``cluster``, ``confidence`` with four
    decimals and ``membership_0`` and so on, as far as they are known of these rows.
    """
    if (clusters := state.get("clusters")) is None:
        return None
    fitting = {name: own for name, own in state.items() if len(own.shape) and len(own) == len(clusters)}
    columns = row_names(len(clusters), table, id_of(state)) + cluster_columns(clusters, fitting.get("confidence"))
    return as_csv(zip(*columns, *membership_columns(fitting.get("memberships")), strict=True))


def cluster_columns(clusters: Tensor, confidence: Tensor | None) -> list[list[object]]:
    """Return the columns of clusters and, if known, confidence, each beginning with its heading."""
    columns: list[list[object]] = [["cluster", *clusters.tolist()]]
    if confidence is not None:
        columns.append(["confidence", *(f"{value:.4f}" for value in confidence.tolist())])
    return columns


def membership_columns(memberships: Tensor | None) -> list[list[object]]:
    """Return a column per cluster of `memberships` ``(n, k)``, each beginning with its heading; empty without."""
    if memberships is None:
        return []
    return [
        [f"membership_{cluster}", *(f"{value:.4f}" for value in own)]
        for cluster, own in enumerate(memberships.T.tolist())
    ]


def row_names(rows: int, table: Table | None, id_column: str | None) -> list[list[object]]:
    """Return the columns that name rows, each beginning with its heading: numbers, and ids if the `table` has them."""
    columns: list[list[object]] = [["row", *range(rows)]]
    if table is not None and id_column is not None:
        table = with_names(table, [(id_column, None)])
    if table is not None and id_column in table.names and len(table) == rows:
        is_taken = id_column in ("row", "client", "cluster", "class", "confidence")
        name = f"{id_column} (id)" if is_taken else id_column
        columns.append([name, *id_texts(table, str(id_column))])
    return columns


def id_texts(table: Table, name: str) -> list[str]:
    """Return the values of a column as texts: whole numbers without decimals, empty cells as empty texts."""
    column = next(column for column in table.columns if column.name == name)
    texts = []
    for value in table.of(name).tolist():
        if value != value:
            texts.append("")
        elif column.is_coded:
            texts.append(column.categories[int(value)])
        else:
            texts.append(str(int(value)) if value == int(value) else repr(value))
    return texts


def as_objects(rows: Iterable[Sequence[object]]) -> str:
    """Write rows below a heading as JSON text: a list of objects, with ``null`` for empty cells."""
    head, *below = rows
    fractions = [str(name) == "confidence" or str(name).startswith("membership_") for name in head]
    objects = [
        {
            str(name): None if cell == "" else float(str(cell)) if fraction else cell
            for name, cell, fraction in zip(head, row, fractions, strict=True)
        }
        for row in below
    ]
    return json.dumps(objects, indent=2, ensure_ascii=False) + "\n"


def as_csv(rows: Iterable[Sequence[object]]) -> str:
    """Write rows as CSV text, with quotes around names that contain commas, quotes or line breaks.

    A text that a spreadsheet would take for a formula is written behind an apostrophe.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_no_formula(cell) for cell in row] for row in rows)
    return text.getvalue()


def _no_formula(cell: object) -> object:
    if not isinstance(cell, str) or not cell.startswith(FORMULA_SIGNS):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
