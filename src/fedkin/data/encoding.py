"""Encoding of tables as numbers, in which each original column has the same weight, fitted to sums over clients.

A number, date, boolean or ordinal column becomes one column of mean 0 and variance 1. A category column becomes an
indicator for each category, centred, and the block is divided by the root of its total variance, as in multiple factor
analysis (Escofier and Pages 1994), so that it weighs no more than a number. Empty cells are imputed by scikit-learn's
``KNNImputer`` among a client's own rows, by the nearest cluster in new ones, or by the median of all clients, which no
imputer of one table knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, Self

import torch
from torch import Tensor

from fedkin.core import Federation
from fedkin.core.client import MAX_CATEGORIES, Table
from fedkin.core.errors import FedkinError, listing, mid_sentence
from fedkin.data.options import Imputation, TableOptions
from fedkin.data.scaling import Mode, fit_scales, unlimited
from fedkin.data.schema import Schema, SchemaColumn, aligned, columns_of, plain, quoted
from fedkin.data.statistics import ColumnSums, histograms_of, medians

OTHER = "other"
"""What a category that the schema does not name is called."""

_TENSORS = ("low", "high", "fill", "mean", "scale", "other")


@dataclass(frozen=True)
class TableEncoding:
    """Encoding of tables with one schema: how their columns become numbers.

    By `mode` each column has variance 1 ("standard"), all together have, as columns of one unit ("common"), or values
    stay as they are: since they lie in [0, 1] ("unit"), or because nothing else was wanted ("none"). `low` and `high`,
    float64 ``(columns,)``, are limits, which values beyond count as; `fill`, alike, takes the place of an empty cell,
    as a value or an index into the categories. `mean` is subtracted from the encoded columns and `scale` divides them,
    both float64 ``(width,)``. `other`, bool ``(columns,)``, says which category columns have an indicator for *other*.
    If it `imputes`, a table may lack a column, which counts as empty then. By `imputation` empty cells take the mean of
    similar rows, if such are passed, or `fill`. Columns of free text, `text_names`, follow the others: their embeddings
    minus the mean, float32 ``(texts, embedded)``, along directions ``(texts, embedded, r)`` of total variance 1.
    """

    schema: Schema
    mode: Mode
    low: Tensor
    high: Tensor
    fill: Tensor
    mean: Tensor
    scale: Tensor
    other: Tensor
    imputes: bool = False
    imputation: Imputation = "median"
    text_names: tuple[str, ...] = ()
    text_means: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    text_directions: Tensor = field(default_factory=lambda: torch.zeros(0, 0, 0))

    def apply(
        self, table: Table, origin: str = "The table", donors: Table | None = None, centres: Tensor | None = None
    ) -> Tensor:
        """Encode a table as float32 ``(n, width)``; its columns may be in any order, and unknown ones are ignored.

        `origin` names the table, at the beginning of error messages. `donors` are rows that empty cells are imputed
        from, the table itself at a client. Without donors such cells take the value of the nearest of the `centres` of
        clusters, as `from_centres` has them, or without these `fill`. Raises FedkinError if a table lacks a column, or
        one is of another kind.
        """
        x, empty = self._encoded(table, origin)
        if self.imputation == "median" or not bool(empty.any()):
            return x
        if donors is None:
            if centres is None:
                return x
            unknown = centres.new_full((len(centres), x.shape[1] - centres.shape[1]), torch.nan)
            return from_centres(x, empty, torch.cat([centres, unknown], 1))
        return from_neighbours(x, empty, *((x, empty) if donors is table else self._encoded(donors, origin)))

    def _encoded(self, table: Table, origin: str) -> tuple[Tensor, Tensor]:
        """Return encoded rows, and which of their cells are of empty ones, bool, both ``(n, width)``."""
        values = aligned(table, self.schema.columns, origin, self.imputes).clamp(self.low, self.high)
        empty = values.isnan()
        x = self._expanded(torch.where(empty, self.fill, values))
        x = x if self.mode == "none" else (x - self.mean) / self.scale
        texts = [self._text(table, i, origin) for i in range(len(self.text_names))]
        x = torch.cat([x.nan_to_num(0.0).float(), *texts], 1)
        over = empty.repeat_interleave(torch.tensor([end - start for _, start, end in self.blocks]), dim=1)
        return x, torch.nn.functional.pad(over, (0, x.shape[1] - over.shape[1]))

    def _text(self, table: Table, i: int, origin: str) -> Tensor:
        """Return the components of a column of free text, 0 where a cell is empty."""
        name, mean = self.text_names[i], self.text_means[i]
        column = table.texts.get(name)
        if column is None or column.rows is None:
            raise FedkinError(
                f"{origin} has no embeddings of free text in column '{name}', which the clients' tables have.",
                public="A table has no embeddings of a column of free text.",
            )
        if column.rows.shape[1] != len(mean):
            raise FedkinError(f"Column '{name}' of {mid_sentence(origin)} was encoded otherwise than the clients'.")
        return ((column.rows - mean) @ self.text_directions[i]).nan_to_num(0.0)

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return len(self.mean) + self.text_directions.shape[0] * self.text_directions.shape[2]

    def _expanded(self, values: Tensor) -> Tensor:
        """Replace categories by indicators (one-hot), float64 ``(n, width)``.

        A row whose category is unknown, where the column has no *other*, is NaN in the block.
        """
        columns = self.schema.columns
        if all(column.kind != "category" for column in columns):
            return values
        parts = []
        for i, (column, has_other) in enumerate(zip(columns, self.other, strict=True)):
            part = values[:, i : i + 1]
            if column.kind == "category":
                count = len(column.categories)
                part = torch.nn.functional.one_hot(values[:, i].long().clamp(0, count), count + 1).double()
                part = part if has_other else torch.where(part[:, -1:] > 0, torch.nan, part[:, :-1])
            parts.append(part)
        return torch.cat(parts, 1)

    @property
    def blocks(self) -> list[tuple[str, int, int]]:
        """Name, begin and end of each column's block of encoded columns."""
        ends = pairwise(accumulate(map(len, self._names_by_column()), initial=0))
        return [(column.name, *span) for column, span in zip(self.schema.columns, ends, strict=True)]

    @property
    def names(self) -> list[str]:
        """Names of the encoded columns, such as ``town = Ulm`` for the indicator of a category."""
        texts = [f"{name} {i + 1}" for name in self.text_names for i in range(self.text_directions.shape[2])]
        return [*(name for names in self._names_by_column() for name in names), *texts]

    def _names_by_column(self) -> list[list[str]]:
        return [
            [f"{column.name} = {level}" for level in (*column.categories, *([OTHER] if has_other else []))]
            if column.kind == "category"
            else [column.name]
            for column, has_other in zip(self.schema.columns, self.other.tolist(), strict=True)
        ]

    def tree(self) -> dict[str, Any]:
        """Return the fields, ready for `fedkin.core.payload.pack`."""
        names = {"id": self.schema.id, "notes": self.schema.notes, "mode": self.mode, "imputes": self.imputes}
        tensors = {name: getattr(self, name) for name in _TENSORS}
        texts = {"text_names": list(self.text_names), "means": self.text_means, "directions": self.text_directions}
        tree = {"columns": plain(self.schema.columns), **names, "imputation": self.imputation, **tensors}
        return {**tree, "texts": texts} if self.text_names else tree

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Self:
        """Return the encoding that `tree` was made of."""
        schema = Schema(columns_of(tree), tree["id"], list(tree["notes"]))
        encoding = cls(schema, **{name: tree[name] for name in ("mode", "imputes", "imputation", *_TENSORS)})
        if "texts" not in tree:
            return encoding
        names, means, directions = (tree["texts"][key] for key in ("text_names", "means", "directions"))
        return replace(encoding, text_names=tuple(names), text_means=means, text_directions=directions)


# Imputation.


def from_neighbours(x: Tensor, empty: Tensor, donors: Tensor, donors_empty: Tensor) -> Tensor:
    """Replace empty cells by the mean of the five most similar donors that are not empty there.

    Rows are compared in the cells that both have, as in Troyanskaya et al. (2001), with at most 1,000 donors, evenly
    spaced. `x`, float32 ``(n, width)``, are encoded rows with fill values in `empty` cells, bool ``(n, width)``.
    `donors` ``(m, width)`` are encoded in the same way, with `donors_empty`; rows of `x` may be among them. Return
    float32 ``(n, width)``. Fill values stay in columns that are empty in all donors, and in rows that have no cell in
    any other column.
    """
    sample = torch.linspace(0, len(donors) - 1, min(len(donors), 1_000)).long()
    columns = (~donors_empty[sample]).any(0).nonzero()[:, 0]
    rows = (empty[:, columns].any(1) & ~empty[:, columns].all(1)).nonzero()[:, 0]
    if not len(rows):
        return x
    from sklearn.impute import KNNImputer

    holes = x[rows][:, columns].double().masked_fill(empty[rows][:, columns], torch.nan)
    full = donors[sample][:, columns].double().masked_fill(donors_empty[sample][:, columns], torch.nan)
    x = x.clone()
    x[rows[:, None], columns] = torch.from_numpy(KNNImputer().fit(full.numpy()).transform(holes.numpy())).float()
    return x


def from_centres(x: Tensor, empty: Tensor, centres: Tensor) -> Tensor:
    """Replace empty cells by those of the centre that is nearest in the cells that are not empty.

    `x`, float32 ``(n, width)``, are encoded rows with fill values in `empty` cells, bool ``(n, width)``; `centres`,
    float64 ``(k, width)``, have NaN for what is not known. Return float32 ``(n, width)``. Each row is imputed alone, so
    that it does not matter which rows are beside it. Fill values stay if the centre is not known, and in rows without
    any cell.
    """
    rows = (empty.any(1) & ~empty.all(1)).nonzero()[:, 0]
    if not len(rows) or not len(centres):
        return x
    cells, gaps = x[rows].double(), empty[rows]
    distances = [
        torch.where(gaps | centre.isnan(), torch.nan, (cells - centre).square()).nanmean(1) for centre in centres
    ]
    nearest = centres[torch.stack(distances).nan_to_num(torch.inf).argmin(0)]
    x = x.clone()
    x[rows] = torch.where(gaps & ~nearest.isnan(), nearest, cells).float()
    return x


# Fitting.


def fit_encoding(
    fed: Federation, schema: Schema, sums: ColumnSums, options: TableOptions
) -> tuple[TableEncoding, list[str]]:
    """Fit the encoding of tables with a schema; return it, and notes for the user.

    Clients are asked for histograms if numbers are missing. `sums` are those of the schema's columns.
    """
    columns = schema.columns
    has_other = torch.tensor([len(counts) > 0 and float(counts[-1]) > 0 for counts in sums.counts])
    fill = _fill_values(fed, columns, sums)
    names, kinds = [f"'{column.name}'" for column in columns], [column.kind for column in columns]
    scales = fit_scales(sums, names, kinds, options.scaling, histograms_of(fed, columns))
    means, spreads = [], []
    for i, column in enumerate(columns):
        mean, spread = scales.mean[i : i + 1], scales.scale[i : i + 1]
        if column.kind == "category":
            counts = sums.counts[i] if has_other[i] else sums.counts[i][:-1]
            mean = counts / counts.sum().clamp_min(1)
            total = 1 - mean.square().sum()
            spread = torch.full_like(mean, float(total.sqrt()) if total > 1e-12 else 1.0)
        means.append(mean)
        spreads.append(spread)
    mean, scale = torch.cat(means), torch.cat(spreads)
    if scales.mode in ("unit", "none"):
        mean, scale = torch.zeros_like(mean), torch.ones_like(scale)
    low, high = unlimited(len(columns)) if scales.low is None or scales.high is None else (scales.low, scales.high)
    encoding = TableEncoding(
        schema,
        scales.mode,
        low,
        high,
        fill,
        mean,
        scale,
        has_other,
        options.missing_columns == "impute",
        options.imputation,
    )
    return encoding, [*_notes(columns, sums, encoding), *scales.notes]


def _fill_values(fed: Federation, columns: Sequence[SchemaColumn], sums: ColumnSums) -> Tensor:
    """Return the fill value of each column's empty cells: the median, or the most frequent boolean or category."""
    fill = sums.mean.clone()
    measured = []
    for i, column in enumerate(columns):
        if column.kind == "category":
            fill[i] = float(sums.counts[i][:-1].argmax())
        elif column.kind == "boolean":
            fill[i] = (sums.mean[i] > 0.5).double()
        elif sums.filled[i] < sums.samples:
            measured.append(i)
    if measured:
        fill[measured] = medians(fed, columns, sums, measured)
    return torch.where(torch.tensor([column.kind == "ordinal" for column in columns]), fill.round(), fill)


def _notes(columns: Sequence[SchemaColumn], sums: ColumnSums, encoding: TableEncoding) -> list[str]:
    """Return notes on empty cells, by column, and on categories that are pooled."""
    notes, missing = [], sums.samples - sums.filled
    if bool((missing > 0).any()):
        worst = [i for i in missing.argsort(descending=True, stable=True).tolist() if missing[i] > 0]
        how = "take the column's median or most frequent value"
        if encoding.imputation == "neighbours":
            how = "take the mean of similar rows of their client, or in new rows that of the nearest cluster"
        cells = listing([f"'{columns[i].name}' {int(missing[i]):,}" for i in worst], 8)
        notes.append(
            f"{int(missing.sum()):,} of {sums.samples * len(columns):,} cells are empty ({cells}); they {how}."
        )
    rare = [column.name for column, has_other in zip(columns, encoding.other.tolist(), strict=True) if has_other]
    if rare:
        notes.append(
            f"Categories of {quoted(rare)} with too few samples at every client to be named, and all but the "
            f"{MAX_CATEGORIES} most frequent of a column, are pooled as '{OTHER}'."
        )
    return notes
