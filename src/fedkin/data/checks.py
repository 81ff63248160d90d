"""Checks of clients' data against each other: what differs between clients and may be no difference of their samples.

Each finding names columns and clients and ends in the option that helps; the data are used as they are. What is odd in
one table alone is no matter of this module. Two checks need cells (`check_cells`) and are made where these are, so in
a real federation at each site; the others take what clients report anyway. No finding holds a value that fewer than
five rows share.

Constants were chosen on the tables of one half of R's packages, whose rows three clients have at random, so that fewer
than one table in 100 raises a false alarm, and judged on the other half (``benchmarks/all_r_tables.py checks``). By
these tables units could differ less; but clients whose samples differ in truth are not among them.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from fedkin.core.client import MEASURED, Column, Kind, Table
from fedkin.core.errors import listing, setting
from fedkin.data.columns import ColumnReport, quoted
from fedkin.data.options import MIN_MEMBERS

_FAR = 4.0
"""Standard deviations, within clients, between means of what is in another unit: measured, see above."""
_OTHER_SCALE = 25.0
"""Ratio of what is in another scale, as bytes and fractions are by 255; clients' samples differ by less."""
_CHANCE = 1e-5
"""Probability below which none of the others' values at a client is no chance: 1,000 columns at ten clients."""
_FEWEST = 20
"""Rows of a client from which on its deviation, and the rows it shares with another, say something."""


def _clients(names: Sequence[str]) -> str:
    """Return clients by name, of which only the first five are named."""
    return f"client{'s' * (len(names) > 1)} {listing([name.removeprefix('Client ') for name in names], 5)}"


def _columns(names: Sequence[str], singular: str, plural: str) -> str:
    return f"Columns {quoted(names)} {plural}" if len(names) > 1 else f"Column {quoted(names)} {singular}"


@functools.lru_cache(maxsize=2**16)  # a wide table's names come from every client
def _without_marks(name: str) -> str:
    """Return a name without what does not tell names apart; at the end and beside digits a sign may, as in A+."""
    return re.sub(r"[\s_]|(?<=[^\W\d_])[-.](?=[^\W\d_])", "", name.casefold())


def _spelt_alike(by_client: Mapping[Any, Collection[str]]) -> list[list[str]]:
    """Return groups of names that differ in case, blanks and marks alone, and that no client has two of."""
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for names in by_client.values() for name in names):
        groups.setdefault(_without_marks(name), []).append(name)
    several = [group for group in groups.values() if len(group) > 1]
    return [group for group in several if all(len({*group}.intersection(names)) < 2 for names in by_client.values())]


def _spelt_by_clients(by_client: Mapping[str, Collection[str]]) -> str:
    """Return names that differ in spelling alone, each with a client that has it; empty if there are none."""
    first = {name: client for client, names in reversed([*by_client.items()]) for name in names}
    groups = _spelt_alike(by_client)
    return "; ".join(", ".join(f"'{name}' ({_clients([first[name]])})" for name in group) for group in groups)


def _parts(values: Mapping[str, set[str]]) -> list[list[str]]:
    """Return clients in parts that share values, the part of most clients first."""
    parts: list[tuple[list[str], set[str]]] = []
    for client, names in values.items():
        sharing = [part for part in parts if part[1] & names]
        joined = [*(name for part in sharing for name in part[0]), client], names.union(*(part[1] for part in sharing))
        parts = [*(part for part in parts if part not in sharing), joined]
    return sorted((part for part, _ in parts), key=lambda part: -len(part))


# Columns that clients have agreed on, by what they report.


class Moments(NamedTuple):
    """Cells of a column at a client: how many are filled, mean, standard deviation, minimum and maximum."""

    filled: float
    mean: float
    deviation: float
    low: float
    high: float


ByClient = Mapping[str, Moments]
Frequencies = Mapping[str, Mapping[str, float]]
"""By client, how many rows of a column have each category; "" stands for all others."""


def check_columns(
    columns: Sequence[Column],
    reports: Mapping[str, Mapping[str, ColumnReport]],
    left_out: Collection[str] = (),
    moments: Mapping[str, Tensor] | None = None,
    counts: Mapping[str, Sequence[Tensor]] | None = None,
) -> list[str]:
    """Return findings on columns that clients have agreed on, but for those that were `left_out` since.

    `reports` are those of each client, by name, of its columns. Without secure sums `moments` are by client those of
    `fedkin.data.columns.moments_of`, and `counts` the frequencies of each column's categories.
    """
    measured = {client: part.T.tolist() for client, part in (moments or {}).items()}
    alike: dict[str, list[str]] = {}  # columns of which the same is to be said
    units: dict[str, dict[str, str]] = {}
    for i, column in enumerate(columns):
        name = column.name
        if name in left_out:
            continue
        if column.kind == "category":
            levels = {client: columns[name].categories for client, columns in reports.items() if name in columns}
            rows = {
                client: dict(zip([*column.categories, ""], by_column[i].tolist(), strict=True))
                for client, by_column in (counts or {}).items()
            }
            if spelt := _spelt_by_clients(levels):
                alike.setdefault(
                    f"categories that differ in spelling alone and count as different: {spelt}", []
                ).append(name)
            elif apart := _disjoint(levels, rows):
                alike.setdefault(f"no frequent value at {_clients(apart)} that others have", []).append(name)
        elif column.kind in MEASURED and (
            unit := _unit({client: Moments(*part[i]) for client, part in measured.items()}, column.kind)
        ):
            units.setdefault(unit[0], {})[name] = unit[1]
    findings = [
        f"{_columns(names, 'has', 'have')} {what}; write values alike if they are the same, or "
        f"{setting('drop', names)}."
        for what, names in alike.items()
    ]
    for where, how_by_name in units.items():
        listed = listing([f"'{name}' ({how})" for name, how in how_by_name.items()], 8)
        remedy = f"give all clients one unit, or {setting('drop', [*how_by_name])} if that is no feature of samples"
        findings.append(f"Values are in another unit or scale at {where}: {listed}; {remedy}.")
    return findings


def _divided(sizes: Mapping[str, float], ratio: bool) -> tuple[list[str], list[str], float]:
    """Return clients in two parts, those of small sizes first, where sizes have the widest gap or ratio, and that."""
    order = sorted(sizes, key=sizes.__getitem__)
    gaps = [sizes[b] / sizes[a] if ratio else sizes[b] - sizes[a] for a, b in pairwise(order)]
    cut = 1 + gaps.index(max(gaps))
    return order[:cut], order[cut:], max(gaps)


def _fewer(small: list[str], large: list[str]) -> tuple[list[str], str]:
    """Return the part of fewer clients, of equally many the second, and how its values are."""
    return (large, "above") if len(large) <= len(small) else (small, "below")


def _unit(moments: ByClient, kind: Kind) -> tuple[str, str] | None:
    """Return at which clients values are far from the others', or five times as large, and how.

    Clients are divided at the widest gap between their means, or at the widest ratio: of means, if values are nowhere
    negative, else of deviations. The fewer clients are named, and of equally many those with larger values.
    """
    moments = {client: each for client, each in moments.items() if each.filled >= MIN_MEMBERS}
    if len(moments) < 2:
        return None
    means = {client: each.mean for client, each in moments.items()}
    positive = kind == "number" and all(each.low >= 0 < each.mean for each in moments.values())
    filled = sum(each.filled for each in moments.values())
    within = math.sqrt(sum(each.filled * each.deviation**2 for each in moments.values()) / filled)
    rounding = 1e-9 * max(abs(each.high) for each in moments.values())
    small, large, gap = _divided(means, ratio=False)
    are_near = gap <= max(_FAR * within, rounding)
    if are_near:
        # Of values on both sides of 0 the mean says nothing of their scale.
        sizes = means if positive else {client: each.deviation for client, each in moments.items() if each.deviation}
        small, large, gap = _divided(sizes, ratio=True) if len(sizes) > 1 else ([], [], 0.0)
        most = max((sizes[client] for client in small), default=0.0)
        if gap < (5 if positive else _OTHER_SCALE) or not all(
            _is_sure(moments[client], most, positive) for client in large
        ):
            return None
    named, side = _fewer(small, large)
    if positive:
        weights = [sum(moments[client].filled for client in part) for part in (small, large)]
        totals = [sum(moments[client].filled * means[client] for client in part) for part in (small, large)]
        ratio = totals[1] / weights[1] / (totals[0] / weights[0])
    else:
        ratio = gap if are_near else 0.0
    how = f"far {side} the others"
    if ratio >= 1.5:  # inches are 2.54 times centimetres, and kilometres 1.6 times miles
        how = f"about {ratio:,.{1 if ratio < 5 else 0}f} times {'larger' if side == 'above' else 'smaller'}"
    return _clients([client for client in moments if client in named]), how


def _is_sure(moments: Moments, size: float, positive: bool) -> bool:
    """Return whether a client's mean, or deviation, is above a size by more than a few large values make of it.

    The mean square has a standard error of at most its root times the largest value, divided by the root of the number;
    with two of them as the least difference, one value or two cannot be what it comes of.
    """
    root = math.sqrt(moments.filled)
    if positive:
        return moments.mean - size > 4 * moments.deviation / root
    farthest = max(moments.high - moments.mean, moments.mean - moments.low)
    return moments.deviation**2 - size**2 > 2 * farthest * moments.deviation / root


def _disjoint(levels: Mapping[str, Sequence[str]], frequencies: Frequencies) -> list[str]:
    """Return clients at which a column has no frequent category of the others, and hardly a row by chance."""
    filled = {client: sum(rows.values()) for client, rows in frequencies.items()}
    apart: list[str] = []
    for part in _parts({client: set(names) for client, names in levels.items() if names})[1:]:
        names = {name for client in levels if client not in part for name in levels[client]}
        inside = {client: sum(rows.get(name, 0.0) for name in names) for client, rows in frequencies.items()}
        others = [client for client in frequencies if client not in part]
        usual = sum(inside[client] for client in others) / max(sum(filled[client] for client in others), 1.0)
        if all(  # no client of the part has, but by chance, a tenth of the others' share of rows in their names
            inside[client] <= 0.1 * usual * filled[client] and (1 - usual) ** filled[client] <= _CHANCE
            for client in part
            if client in frequencies
        ):
            apart += part
    return apart


# Names of columns, labels, and arrays.


def check_names(names: Mapping[int, Collection[str]]) -> list[str]:
    """Return a finding on columns whose names differ in spelling alone and count as different; by each client's."""
    alike = [" and ".join(f"'{name}'" for name in group) for group in _spelt_alike(names)]
    sentence = (
        f"Columns {listing(alike, 8)} differ in spelling alone and count as different; give them one name if they are "
        "the same."
    )
    return [sentence] if alike else []


def check_labels(by_client: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """Return findings on labels, by client: those on spellings, and those on clients that share none with others.

    If no two clients share a label, each may have classes of its own, and nothing is said.
    """
    spelt = _spelt_by_clients(by_client)
    sentence = (
        f"Labels that differ in spelling alone are different classes: {spelt}; spell them alike if they are the same."
    )
    findings = [sentence] if spelt else []
    parts = _parts({client: set(labels) for client, labels in by_client.items() if labels})
    if len(parts) < 2 or all(len(part) == 1 for part in parts):
        return findings, []
    apart = " and ".join(f"{_clients(part)} ('{by_client[part[0]][0]}', ...)" for part in parts[1:])
    sentence = (
        f"No label of {apart} is one of the other clients', which alone can make clusters of clients; write labels "
        "alike if they mean the same."
    )
    return findings, [sentence]


def check_arrays(ends: Mapping[str, tuple[Tensor, Tensor]]) -> list[str]:
    """Return a finding if values of some clients reach 25 times as far from 0 as all others', as bytes and fractions.

    That is so in most columns, as a few values may be outliers. `ends` are by client's name the minima and maxima of
    its columns or channels, float64 ``(columns,)``.
    """
    by_column = torch.stack([torch.maximum(-low, high) for low, high in ends.values()])
    by_column = by_column[:, (by_column > 0).any(0)]
    if not by_column.numel():
        return []
    sizes = {name: size for name, size in zip(ends, by_column.median(1).values.tolist(), strict=True) if size > 0}
    small, large, ratio = _divided(sizes, ratio=True) if len(sizes) > 1 else ([], [], 0.0)
    if ratio <= _OTHER_SCALE:
        return []
    few, _ = _fewer(small, large)
    largest, others = (max(sizes[name] for name in sizes if (name in few) == is_in) for is_in in (True, False))
    sentence = (
        f"The largest values at {_clients([name for name in sizes if name in few])} are about {largest:.3g}, and those "
        f"of all others about {others:.3g}; give all one unit, as pixels from 0 to 255 or from 0 to 1."
    )
    return [sentence]


# Cells of clients' tables.


def check_cells(tables: Mapping[str, Table]) -> list[str]:
    """Return findings on the cells of clients' tables, by name."""
    return [*_same_rows(tables), *_missing_codes(tables)]


def _same_rows(tables: Mapping[str, Table]) -> list[str]:
    """Find clients that have more than half of their rows in common with another, and hardly repeat their own."""
    findings, owner = [], dict[int, str]()
    for client, table in tables.items():
        if len(table) < _FEWEST or len(table.columns) < 3:
            continue
        rows = list(dict.fromkeys(_hashes(table)))
        if len(rows) < 0.9 * len(table):
            continue
        shared = Counter(owner[row] for row in rows if row in owner)
        if shared and (first := shared.most_common(1)[0])[1] > len(rows) / 2:
            held = f"{client} holds {first[1]:,} of its {len(rows):,} different rows at {first[0]}, too"
            findings.append(f"{held}; leave it out if it is a copy.")
        owner |= dict.fromkeys(rows, client)
    return findings


def _hashes(table: Table) -> list[int]:
    """Return a hash of what each row holds, in order of the columns' names, of a category its text."""
    cells: dict[str, Any] = {}
    for column in sorted(table.columns, key=lambda column: column.name):
        values = table.of(column.name).numpy()
        codes = np.nan_to_num(values, nan=-1).astype(int)
        cells[column.name] = pd.Categorical.from_codes(codes, [*column.categories]) if column.is_coded else values + 0.0
    return [*map(int, pd.util.hash_pandas_object(pd.DataFrame(cells), index=False))]


def _missing_codes(tables: Mapping[str, Table]) -> list[str]:
    """Find values that seem to stand for empty cells, such as 9999, see `_codes_in`; the same in columns is one."""
    cells: dict[tuple[str, Kind], dict[str, npt.NDArray[np.float64]]] = {}
    for client, table in tables.items():
        for column, values in zip(table.columns, table.values.numpy().T, strict=True):
            if column.kind in MEASURED:
                cells.setdefault((column.name, column.kind), {})[client] = values[~np.isnan(values)]
    codes: dict[tuple[str | float, str], dict[str, dict[str, int]]] = {}  # rows by column and client
    for (name, kind), by_client in cells.items():
        for value, place in _codes_in(np.concatenate([*by_client.values()]), kind):
            number = int(value) if value.is_integer() else value
            written = str(np.datetime64(int(value), "D")) if kind == "date" else number
            rows = {client: int((values == value).sum()) for client, values in by_client.items() if value in values}
            codes.setdefault((written, place), {})[name] = rows
    return [
        f"{_columns([*by_name], 'holds', 'hold')} {written}, far {place} all other values, in "
        f"{listing([f'{sum(rows.values())} rows of {_clients([*rows])}' for rows in by_name.values()], 5)}; if it is "
        f"no true value but stands for a missing one, {setting('na_values', {name: [written] for name in by_name})}."
        for (written, place), by_name in codes.items()
    ]


def _codes_in(cells: npt.NDArray[np.float64], kind: Kind) -> Iterator[tuple[float, str]]:
    """Yield values at the ends of a column that seem to stand for empty cells, and at which end they are.

    They are in five rows or more, and three times as far from all others as nine tenths of these are from each other;
    beside ten values or fewer, as of grades, 9 is a value. Or they are 0 in at most a quarter of the rows, and all
    others are far from it by their median and by their steps, so that they are no counts.
    """
    values, counts = np.unique(cells, return_counts=True)
    if len(values) <= 10:
        return
    for end, place in ((0, "below"), (-1, "above")):
        rest = cells[cells != values[end]]
        if MIN_MEMBERS <= counts[end] <= len(rest):
            least, most = np.quantile(rest[rest != values[-1 - end]], (0.05, 0.95))  # a code may be at either end
            gap = abs(values[end] - values[1 if end == 0 else -2])
            zeros = kind == "number" and end == values[0] == 0 and counts[0] <= 0.25 * len(cells)
            steps = np.diff(values[1 : 1 + max(10, len(values) // 4)])
            if gap > 3 * (most - least) or (zeros and gap >= max(np.median(rest) / 3, 8 * np.median(steps))):
                yield float(values[end]), place
