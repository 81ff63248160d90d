"""Encoding of samples as numbers, in which each original column has the same weight, fitted to sums over clients.

A number, date, boolean or ordinal column becomes one column of mean 0 and variance 1. A category column becomes an
indicator for each category, centred, and the block is divided by the root of its total variance, as in multiple factor
analysis (Escofier and Pages 1994), so that it weighs no more than a number. Empty cells are imputed by scikit-learn's
``KNNImputer`` among a client's own rows, by the nearest cluster in new ones, or by the median of all clients, which no
imputer of one table knows. Arrays are scaled alike, by column or, of images, by channel.

A single mistyped number can be most of a column's variance, so that all other rows are alike once it is standardised.
So values beyond limits count as these, and those between are bent towards the middle (inverse hyperbolic sine), or the
tails of skewed columns would be clusters. Columns without outliers stay as they are, which skrub's ``SquashingScaler``,
for one, bends as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, Literal, Self

import torch
from torch import Tensor

from fedkin.core import Federation
from fedkin.core.client import MAX_CATEGORIES, MEASURED, Column, Table
from fedkin.core.errors import FedkinError, listing, mid_sentence, option
from fedkin.core.payload import MAX_NUMBER
from fedkin.data.columns import (
    BINS,
    Ask,
    ColumnSums,
    Schema,
    aligned,
    columns_of,
    histograms_of,
    plain,
    quantile,
    quoted,
)
from fedkin.data.options import Imputation, TableOptions

Mode = Literal["standard", "common", "unit", "none"]

OTHER = "other"
"""What a category that the schema does not name is called."""
_MIN_SHARING, _SAME_ORDER = 16, 6.0
"""Columns in one unit are at least so many, and their largest spread is at most so many times their smallest."""
_TAIL = 0.05
"""The middle nine tenths of a column lie between the quantiles of this fraction and its complement. Limits are once
their distance beyond them, if a value is more than twice as far: 5 and 8 standard deviations of normal values."""
_UNIT = 0.25
"""Values are bent beyond this part of the middle nine tenths. Of a quarter, an eighth and half the distance of
quartiles it keeps simulated skewed clusters best, and those with outliers as they were."""
_TENSORS = ("mean", "scale", "limits", "fill", "other")
_NONE = torch.zeros(0, dtype=torch.float64)


@dataclass(frozen=True)
class Encoding:
    """Encoding of samples: how columns of tables with one schema, or of arrays, become numbers.

    By `mode` each column or channel has variance 1 ("standard"), all together have, as columns of one unit ("common"),
    or values stay as they are: since they lie in [0, 1] ("unit"), or because nothing else was wanted ("none"). `mean`
    is subtracted from the encoded columns and `scale` divides them, both float64 ``(width,)``. `limits`, float64 ``(4,
    columns)``, are of columns with outliers a low and a high one, which values beyond count as, and a middle, to which
    those within are bent beyond a unit, which is 0 where they are not; ``(4, 0)`` without any. Of arrays `shape` is
    that of a sample, ``(features,)`` or ``(channels, height, width)``, and the rest is empty.

    Of tables, `schema` has the columns, and `fill`, float64 ``(columns,)``, takes the place of an empty cell, as a
    value or an index into the categories. `other`, bool ``(columns,)``, says which category columns have an indicator
    for *other*. By `imputation` empty cells take the mean of similar rows, if such are passed, or `fill`. Columns of
    free text, `text_names`, follow the others: their embeddings minus the mean, float32 ``(texts, embedded)``, along
    directions ``(texts, embedded, r)`` of total variance 1.
    """

    mode: Mode
    mean: Tensor
    scale: Tensor
    limits: Tensor = field(default_factory=lambda: torch.zeros(4, 0, dtype=torch.float64))
    shape: tuple[int, ...] = ()
    schema: Schema = field(default_factory=lambda: Schema(()))
    fill: Tensor = _NONE
    other: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    imputation: Imputation = "median"
    text_names: tuple[str, ...] = ()
    text_means: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    text_directions: Tensor = field(default_factory=lambda: torch.zeros(0, 0, 0))

    @classmethod
    def unchanged(cls, mode: Mode, shape: tuple[int, ...] = (), schema: Schema | None = None) -> Self:
        """Return the encoding that leaves arrays of a shape, or a table of numbers, as they are."""
        zeros = torch.zeros(shape[0] if schema is None else len(schema.columns), dtype=torch.float64)
        if schema is None:
            return cls(mode, zeros, torch.ones_like(zeros), shape=shape)
        return cls(mode, zeros, torch.ones_like(zeros), schema=schema, fill=zeros, other=zeros.bool())

    @property
    def is_scaled(self) -> bool:
        """Whether values are changed by mean and scale."""
        return self.mode in ("standard", "common")

    @property
    def changes(self) -> bool:
        """Whether data are changed."""
        return self.is_scaled or not self.shape

    def scaled(self, x: Tensor) -> Tensor:
        """Scale arrays ``(n, *shape)``, float32: computed in float64 per column or channel; FedkinError if of another.

        `x` itself is not changed.
        """
        if tuple(x.shape[1:]) != self.shape:
            raise FedkinError(
                f"The samples have shape {tuple(x.shape[1:])}, but the model was made for {self.shape}.", public=True
            )
        if not self.is_scaled:
            return x.float()
        x, around = self.compressed(x.double()), (1, -1) + (1,) * (x.ndim - 2)
        return ((x - self.mean.view(around)) / self.scale.view(around)).float()

    def compressed(self, values: Tensor, columns: slice = slice(None)) -> Tensor:
        """Return values ``(n, columns)``, float64, within the limits of these columns, and bent to their middle."""
        if not self.limits.shape[1]:
            return values
        low, high, middle, unit = self.limits[:, columns]
        return _bent(values.clamp(low, high), middle, unit)

    def apply(
        self, table: Table, origin: str = "The table", donors: Table | None = None, centres: Tensor | None = None
    ) -> Tensor:
        """Encode a table as float32 ``(n, width)``; its columns may be in any order, and unknown ones are ignored.

        `origin` names the table, at the beginning of error messages. `donors` are rows that empty cells are imputed
        from, the table itself at a client. Without donors such cells take the value of the nearest of the `centres` of
        clusters, float64 ``(k, width)`` with NaN for what is not known, or without these `fill`. Raises FedkinError if
        a table lacks a column, or one is of another kind.
        """
        x, empty = self._encoded(table, origin)
        if self.imputation == "median" or not bool(empty.any()):
            return x
        if donors is None:
            if centres is None:
                return x
            centres = torch.nn.functional.pad(centres, (0, x.shape[1] - centres.shape[1]), value=torch.nan)
            return from_neighbours(x, empty, centres, centres.isnan(), 1)
        return from_neighbours(x, empty, *((x, empty) if donors is table else self._encoded(donors, origin)))

    def _encoded(self, table: Table, origin: str) -> tuple[Tensor, Tensor]:
        """Return encoded rows, and which of their cells are of empty ones, bool, both ``(n, width)``."""
        values = self.compressed(aligned(table, self.schema.columns, origin))
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
        if all(column.kind != "category" for column in self.schema.columns):
            return values
        parts = []
        for i, (column, has_other) in enumerate(zip(self.schema.columns, self.other, strict=True)):
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
        """Names of a table's encoded columns, such as ``town = Ulm`` for the indicator of a category."""
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
        facts = {name: getattr(self, name) for name in ("mode", "imputation", *_TENSORS)}
        tree = {"columns": plain(self.schema.columns), "id": self.schema.id, "notes": self.schema.notes, **facts}
        texts = {"text_names": list(self.text_names), "means": self.text_means, "directions": self.text_directions}
        return {**tree, "shape": list(self.shape), **({"texts": texts} if self.text_names else {})}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Self:
        """Return the encoding that `tree` was made of; raise TypeError if it is damaged."""
        if not all(isinstance(tree[name], Tensor) for name in _TENSORS):
            raise TypeError("an encoding is made of tensors")
        schema = Schema(columns_of(tree), tree["id"], list(tree["notes"]))
        facts = {name: tree[name] for name in ("mode", "imputation", *_TENSORS)}
        encoding = cls(**facts, schema=schema, shape=tuple(tree["shape"]))
        if "texts" not in tree:
            return encoding
        names, means, directions = (tree["texts"][key] for key in ("text_names", "means", "directions"))
        return replace(encoding, text_names=tuple(names), text_means=means, text_directions=directions)


# Imputation.


def from_neighbours(x: Tensor, empty: Tensor, donors: Tensor, donors_empty: Tensor, count: int = 5) -> Tensor:
    """Replace empty cells by the mean of the `count` most similar donors that are not empty there.

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
    imputer = KNNImputer(n_neighbors=count).fit(full.numpy())
    x[rows[:, None], columns] = torch.from_numpy(imputer.transform(holes.numpy())).float()
    return x


# Fitting.


def fit_encoding(
    fed: Federation, sums: ColumnSums, options: TableOptions, schema: Schema | None = None, shape: tuple[int, ...] = ()
) -> tuple[Encoding, list[str]]:
    """Fit the encoding of tables with a schema, or of arrays of a shape; return it, and notes for the user.

    Standardising each column of pixels, embeddings or spectra would amplify those that hardly vary, so by the scaling
    "auto" columns that `share_unit` are divided by one common scale, and the others each by its own, within limits if
    they have outliers. Numbers that all lie in [0, 1] are left alone. Clients are asked for histograms if cells are
    empty or numbers far from the others. `sums` are those of the columns.
    """
    columns = tuple(Column(f"column {i + 1}") for i in range(shape[0])) if schema is None else schema.columns
    scaling = options.scaling if len(shape) < 2 else "standard"  # an image's channels have one scale each
    notes: list[str] = []
    has_other = torch.tensor([len(counts) > 0 and float(counts[-1]) > 0 for counts in sums.counts], dtype=torch.bool)
    fill = _NONE if schema is None else _fill_values(fed, columns, sums)
    mode: Mode = "none" if scaling == "none" else "standard"
    low, high, limits = sums.low, sums.high, torch.zeros(4, 0, dtype=torch.float64)
    is_constant = constant(sums.mean, sums.spread)
    if low is not None and high is not None and not sums.trimmed:
        is_constant = low == high
    mean, scale = sums.mean, torch.where(is_constant, 1.0, sums.spread)
    if scaling == "auto" and low is not None and high is not None:
        are_plain = all(column.kind == "number" for column in columns)
        if are_plain and not sums.trimmed and in_unit(low, high):
            mode = "unit"
        else:
            shared = share_unit(low, high, sums.spread) if are_plain else torch.zeros_like(is_constant)
            if shared.any():
                mode, common = "common", sums.spread[shared].square().mean().sqrt()
                scale = torch.where(shared & ~is_constant, common, scale)
                notes.append(
                    f"{int(shared.sum())} of {len(shared)} columns look like measures in one unit, so they are divided "
                    f"by one common scale; {option('scaling', 'standard')} divides each by its own."
                )
            measured = torch.tensor([column.kind in MEASURED for column in columns]) & (sums.filled > 0)
            ask = histograms_of(fed, None if schema is None else columns)
            far, parts = _find_limits(ask, sums, low, high, measured & ~shared)
            if len(far):
                unlimited, zeros = torch.full_like(mean, MAX_NUMBER), torch.zeros_like(mean)
                others = torch.stack([mean, scale, -unlimited, unlimited, zeros, zeros]).index_copy(1, far, parts)
                mean, scale, limits = others[0], others[1], others[2:]
                names = [columns[i].name if schema is None else f"'{columns[i].name}'" for i in far.tolist()]
                notes.append(
                    f"Some values of {listing(names, 5)} are far from all others: they count as a limit, and those "
                    f"between are bent to the middle; {option('scaling', 'standard')} takes all as they are."
                )
    means, spreads = list(mean.split(1)), list(scale.split(1))
    for i, column in enumerate(columns):
        if column.kind == "category":
            counts = sums.counts[i] if has_other[i] else sums.counts[i][:-1]
            means[i] = counts / counts.sum().clamp_min(1)
            total = 1 - means[i].square().sum()
            spreads[i] = torch.full_like(counts, float(total.sqrt()) if total > 1e-12 else 1.0)
    mean, scale = torch.cat(means), torch.cat(spreads)
    if mode in ("unit", "none"):
        mean, scale = torch.zeros_like(mean), torch.ones_like(scale)
    encoding = Encoding(mode, mean, scale, limits, shape, schema or Schema(()), fill, has_other, options.imputation)
    return encoding, [*([] if schema is None else _notes(columns, sums, encoding)), *notes]


def _fill_values(fed: Federation, columns: Sequence[Column], sums: ColumnSums) -> Tensor:
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
        at = torch.tensor(measured)  # where no ends are known, the histogram reaches four deviations from the mean
        low = (sums.mean - 4.0 * sums.spread if sums.low is None else sums.low)[at]
        high = (sums.mean + 4.0 * sums.spread if sums.high is None else sums.high)[at]
        fill[at] = quantile(histograms_of(fed, columns)(at, low, high), 0.5, low, high)
    return torch.where(torch.tensor([column.kind == "ordinal" for column in columns]), fill.round(), fill)


def _notes(columns: Sequence[Column], sums: ColumnSums, encoding: Encoding) -> list[str]:
    """Return notes on empty cells, by column, and on categories that are pooled."""
    notes, missing = [], sums.samples - sums.filled
    if bool((missing > 0).any()):
        worst = [i for i in missing.argsort(descending=True, stable=True).tolist() if missing[i] > 0]
        cells = listing([f"'{columns[i].name}' {int(missing[i]):,}" for i in worst], 8)
        how = "take the column's median or most frequent value"
        how = "take the mean of similar rows of their client" if encoding.imputation == "neighbours" else how
        count, total = int(missing.sum()), sums.samples * len(columns)
        notes.append(f"{count:,} of {total:,} cells are empty ({cells}); they {how}.")
    if rare := [column.name for column, has_other in zip(columns, encoding.other.tolist(), strict=True) if has_other]:
        what = f"with too few samples at every client to be named, and all but the {MAX_CATEGORIES} most frequent"
        notes.append(f"Categories of {quoted(rare)} {what}, are pooled as '{OTHER}'.")
    return notes


# Scales of columns, and limits of those with outliers.


def in_unit(low: Tensor, high: Tensor) -> bool:
    """Return whether all values lie in [0, 1], and not all of them below 0.01, next to 0."""
    return bool((low >= 0).all() and (high <= 1).all()) and float(high.max()) >= 0.01


def share_unit(low: Tensor, high: Tensor, spread: Tensor) -> Tensor:
    """Return which columns look like measurements of one kind in one unit, bool ``(columns,)``; there may be none.

    They are so if at least half of the columns that vary have one minimum and half one maximum, as pixels do: all that
    lie between these two. Or all spread by the same order of magnitude around values of that order, as embeddings and
    spectra do; of these a twentieth may spread less. Fewer than 16 columns do not share a unit. `low`, `high` and
    `spread`, float64 ``(columns,)``, are minimum, maximum and standard deviation.
    """
    varies = low < high
    none = torch.zeros_like(varies)
    if int(varies.sum()) < _MIN_SHARING:
        return none
    least, greatest = low[varies].mode().values, high[varies].mode().values
    if 2 * min((low[varies] == least).sum(), (high[varies] == greatest).sum()) >= varies.sum():
        shared = varies & (low >= least) & (high <= greatest)
    else:
        smallest, largest = spread[varies].quantile(0.05), spread[varies].quantile(0.95)
        shared = varies & (spread <= _SAME_ORDER * smallest)
        middles = (low + high)[shared] / 2
        if largest > _SAME_ORDER * smallest or middles.max() - middles.min() > _SAME_ORDER * spread[shared].max():
            return none
    return shared if int(shared.sum()) >= _MIN_SHARING else none


def constant(mean: Tensor, spread: Tensor) -> Tensor:
    """Return which columns do not vary except for rounding, where minimum and maximum are not known."""
    return spread <= 1e-12 * mean.abs()


def _find_limits(ask: Ask, sums: ColumnSums, low: Tensor, high: Tensor, among: Tensor) -> tuple[Tensor, Tensor]:
    """Return the columns with outliers, of those `among` which they may be, and what becomes of them.

    That are their positions, int64 ``(k,)``, and, float64 ``(6, k)``, the mean and standard deviation of compressed
    values, which are read from a histogram, and the limits, see `Encoding`. Clients are asked only if some value is
    five standard deviations from the mean; where ends are trimmed nobody knows, so all columns have limits.
    """
    reach = torch.maximum(high - sums.mean, sums.mean - low)
    positions = (among & ((reach > 5.0 * sums.spread) | (sums.trimmed and low < high))).nonzero()[:, 0]
    least, greatest = low[positions], high[positions]
    first, middle, last, filled = _central_range(ask, positions, least, greatest)
    width = last - first
    is_far = (greatest > last + 2.0 * width) | (least < first - 2.0 * width)
    outlying = filled & (is_far | sums.trimmed)
    limits = torch.stack([first - width, last + width, middle, _UNIT * width * is_far])[:, outlying]
    positions, (low, high, middle, unit) = positions[outlying], limits
    counts = ask(positions, low, high) if len(positions) else torch.zeros(0, BINS)
    middles = low[:, None] + (torch.arange(BINS) + 0.5) / BINS * (high - low)[:, None]
    bins = _bent(middles, middle[:, None], unit[:, None])
    shares = counts / counts.sum(1, keepdim=True).clamp_min(1)
    mean = (shares * bins).sum(1)
    deviation = (shares * (bins - mean[:, None]).square()).sum(1).sqrt()
    return positions, torch.cat([torch.stack([mean, deviation]), limits])


def _bent(values: Tensor, middle: Tensor, unit: Tensor) -> Tensor:
    """Return values that grow as they do near the middle and as their logarithms far from it; as they are by unit 0."""
    return torch.where(unit > 0, middle + unit * torch.asinh((values - middle) / unit), values)


def _central_range(ask: Ask, positions: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return begin, median and end of each column's middle nine tenths, and whether these fill 16 bins of a histogram.

    Histograms are asked for up to eight times, each finer than the last, to reach that.
    """
    first, middle, last = low.clone(), low.clone(), high.clone()
    filled = torch.zeros(len(positions), dtype=torch.bool)
    low, high = low.clone(), high.clone()
    for _ in range(8):
        rest = (~filled & (high > low)).nonzero()[:, 0]
        if not len(rest):
            break
        counts, ends = ask(positions[rest], low[rest], high[rest]), (low[rest], high[rest])
        first[rest], middle[rest], last[rest] = (quantile(counts, part, *ends) for part in (_TAIL, 0.5, 1 - _TAIL))
        width = (ends[1] - ends[0]) / BINS
        filled[rest] = last[rest] - first[rest] >= 16 * width
        low[rest] = torch.maximum(first[rest] - width, ends[0])
        high[rest] = torch.minimum(last[rest] + width, ends[1])
    return first, middle, last, filled
