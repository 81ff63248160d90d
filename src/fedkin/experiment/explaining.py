"""Why a row is in its cluster: the columns that put it there rather than into the next best cluster.

With distances d from the clusters' means, where a method compares samples, a row is nearer to its own than to the next
by the difference of their squares. That is a sum over features, in which each has its part, and over the indicators of
a category or the components of a text together. Nothing is asked and nothing leaves: a row's owner computes it from the
row, the result and the profile of the clusters.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedkin.core import FedkinError
from fedkin.core.client import Table
from fedkin.core.runner import NUMBERS, predicted_clusters
from fedkin.data.cluster_words import WORD, texts_of
from fedkin.data.dataset import Dataset
from fedkin.data.preparation import Preparation
from fedkin.data.profile import ClusterProfile
from fedkin.report.words import NOTHING, described

REASONS = 3
"""Columns that are named of each row, as many as sentences on clusters can hold."""
_EMPTY = "empty"


@dataclass(frozen=True)
class Reason:
    """One column, or the words, that put a row into its cluster.

    `value` is the row's own, `here` what is usual in its cluster and `there` in the next best one, all in original
    units; the last two are empty where the clusters have no profile. `share`, in (0, 1], is the part of what speaks for
    the cluster.
    """

    column: str
    value: str
    here: str
    there: str
    share: float

    def __str__(self) -> str:
        beside = f" ({self.here}{f'; next {self.there}' if self.there else ''})" if self.here else ""
        return f"{self.column} {self.value}{beside}"


@dataclass(frozen=True)
class Explanation:
    """Why a row is in its `cluster` and not in the `next` best one, -1 if there is no other: the strongest first."""

    cluster: int
    next: int
    reasons: list[Reason]

    def __str__(self) -> str:
        return "; ".join(map(str, self.reasons))


def explain(
    method: Any, result: Mapping[str, Any], preparation: Preparation, data: Dataset, x: Tensor,
    profile: ClusterProfile | None, words: Sequence[Sequence[str]] = (),
) -> list[Explanation]:  # fmt: skip
    """Explain the clusters of rows.

    Parameters
    ----------
    method, result
        A method's class and its result.
    preparation : Preparation
    data : Dataset
        The rows as they were read, and `x`, float32 ``(n, *shape)``, prepared.
    profile : ClusterProfile or None
        Of the clusters of tables; `words` are those that distinguish clusters of texts.

    Raises
    ------
    FedkinError
        If the method does not compare rows by distances in features.
    """
    clusters = predicted_clusters(method, result, x)
    if (contrast := getattr(method, "contrast", lambda *_: None)(result, x)) is None:
        raise FedkinError("Why rows are in their clusters is not known: the method compares them by a network.")
    after, parts = contrast
    numbers = result.get(NUMBERS, torch.arange(int(result["n_clusters"])))
    after = torch.where(after < 0, after, numbers[after.clamp_min(0)])
    names, totals = _by_column(preparation, parts)
    usual = {column.name: column.cells for column in described(profile)} if profile is not None else {}
    texts = texts_of(data.samples, data.table, len(x)) if any(words) else None
    table, raw = data.table if preparation.table is not None else None, data.x.flatten(1)
    is_raw = table is None and raw.shape[1] == len(names) and not preparation.encoder
    explained = []
    for row, (cluster, other) in enumerate(zip(clusters.tolist(), after.tolist(), strict=True)):
        written = () if texts is None else {*re.findall(WORD, texts[row].lower())}
        held = [word for word in words[cluster] if word in written] if written else []
        if held:
            explained.append(Explanation(cluster, other, [Reason("words", ", ".join(held), "", "", 1.0)]))
            continue
        speaks = totals[row].clamp_min(0)
        shares = (speaks / speaks.sum().clamp_min(1e-300)).tolist() if other >= 0 else [0.0] * len(names)
        reasons: list[Reason] = []
        for place in sorted(range(len(names)), key=lambda each: -shares[each]):
            if len(reasons) == REASONS or shares[place] <= 0:
                break
            value = f"{float(raw[row, place]):.4g}" if is_raw else cell_text(table, names[place], row) if table else ""
            if value == _EMPTY:  # it is filled like the rows of its cluster, and so would speak for any
                continue
            cells = usual.get(names[place], [])
            here, there = (cells[c] if c < len(cells) and cells[c] != NOTHING else "" for c in (cluster, other))
            reasons.append(Reason(names[place], value, here, there, shares[place]))
        explained.append(Explanation(cluster, other, reasons))
    return explained


def _by_column(preparation: Preparation, parts: Tensor) -> tuple[list[str], Tensor]:
    """Return the names of columns, and the parts of each ``(n, columns)``; of features where these are no columns."""
    encoding, width = preparation.table, parts.shape[1]
    if encoding is None or width not in (encoding.width, len(encoding.mean)):
        shape = preparation.shape
        is_of_samples = width == torch.Size(shape).numel() and not preparation.encoder
        if is_of_samples and len(shape) == 3:
            return [f"pixel {place // shape[2] % shape[1]}, {place % shape[2]}" for place in range(width)], parts
        return [f"{'column' if is_of_samples else 'feature'} {place}" for place in range(width)], parts
    spans = [(name, start, end) for name, start, end in encoding.blocks]
    each, texts = len(encoding.mean), len(encoding.text_names)
    size = (width - each) // texts if texts else 0
    spans += [(name, each + i * size, each + (i + 1) * size) for i, name in enumerate(encoding.text_names) if size]
    return [name for name, _, _ in spans], torch.stack([parts[:, a:b].sum(1) for _, a, b in spans], 1)


def cell_text(table: Table, name: str, row: int) -> str:
    """Return a cell of a table as a text, in the units of the data; "empty" without a value."""
    column = next((each for each in table.columns if each.name == name), None)
    if column is None:
        return "" if name in table.texts else _EMPTY
    value = float(table.of(name)[row])
    if value != value:
        return _EMPTY
    if column.is_coded:
        return str(column.categories[int(value)])
    if column.kind == "boolean":
        return "true" if value else "false"
    if column.kind == "date":
        return (datetime.datetime(1970, 1, 1) + datetime.timedelta(days=value)).date().isoformat()
    return f"{value:,.6g}"
