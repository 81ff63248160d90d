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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedkin.core.client import MEASURED, Column, Kind, Table
from fedkin.core.errors import listing, setting
from fedkin.data.options import MIN_MEMBERS
from fedkin.data.schema import ColumnReport, quoted

Check = Literal["unit", "spelling", "disjoint", "labels", "same rows", "missing code"]

_FAR = 4.0
"""Standard deviations, within clients, between means of what is in another unit: measured, see above."""
_CHANCE = 1e-5
"""Probability below which none of the others' values at a client is no chance: 1,000 columns at ten clients."""
_FEWEST = 20
"""Rows of a client from which on its deviation, and the rows it shares with another, say something."""


class Finding(str):
    """Sentence of a check; what is written to files or sent has the sentence alone."""

    check: Check

    def __new__(cls, sentence: str, check: Check = "unit") -> Self:
        finding = super().__new__(cls, sentence)
        finding.check = check
        return finding


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
) -> list[Finding]:
    """Return findings on columns that clients have agreed on, but for those that were `left_out` since.

    `reports` are those of each client, by name, of its columns. Without secure sums `moments` are by client those of
    `fedkin.data.statistics.moments_of`, and `counts` the frequencies of each column's categories.
    """
    measured = {client: part.T.tolist() for client, part in (moments or {}).items()}
    alike: dict[tuple[Check, str], list[str]] = {}  # columns of which the same is to be said
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
                what = f"categories that differ in spelling alone and count as different: {spelt}"
                alike.setdefault(("spelling", what), []).append(name)
            elif apart := _disjoint(levels, rows):
                alike.setdefault(("disjoint", f"no frequent value {apart}"), []).append(name)
        elif column.kind in MEASURED and (
            unit := _unit({client: Moments(*part[i]) for client, part in measured.items()}, column.kind)
        ):
            units.setdefault(unit[0], {})[name] = unit[1]
    findings = [
        Finding(
            f"{_columns(names, 'has', 'have')} {what}; write values alike if they are the same, or "
            f"{setting('drop', names)}.",
            check,
        )
        for (check, what), names in alike.items()
    ]
    for where, how_by_name in units.items():
        listed = listing([f"'{name}' ({how})" for name, how in how_by_name.items()], 8)
        remedy = f"give all clients one unit, or {setting('drop', [*how_by_name])} if that is no feature of samples"
        findings.append(Finding(f"Values are in another unit or scale at {where}: {listed}; {remedy}.", "unit"))
    return findings


def _widest(sizes: Mapping[str, float], ratio: bool) -> tuple[list[str], int, float]:
    """Return clients in order of size, where the gap is widest, and that gap, or ratio, of sizes."""
    order = sorted(sizes, key=sizes.__getitem__)
    gaps = [sizes[b] / sizes[a] if ratio else sizes[b] - sizes[a] for a, b in pairwise(order)]
    return order, 1 + gaps.index(max(gaps)), max(gaps)


def _unit(moments: ByClient, kind: Kind) -> tuple[str, str] | None:
    """Return at which clients values are far from the others', or five times as large, and how.

    Clients are divided at the widest gap between their means, or, of values that are nowhere negative, the widest
    ratio. The fewer clients are named, and of equally many those with larger values.
    """
    moments = {client: each for client, each in moments.items() if each.filled >= MIN_MEMBERS}
    if len(moments) < 2:
        return None
    means = {client: each.mean for client, each in moments.items()}
    positive = kind == "number" and all(each.low >= 0 < each.mean for each in moments.values())
    order, cut, gap = _widest(means, ratio=False)
    pooled = _pooled([*moments.values()])
    is_far = gap > max(_FAR * pooled.deviation, 1e-9 * abs(pooled.high))  # beyond rounding
    if not is_far:
        if not positive or not all(each.deviation > 0 for each in moments.values()):
            return None
        order, cut, widest = _widest(means, ratio=True)
        if widest < 5:
            return None
    low, high = (_pooled([moments[client] for client in part]) for part in (order[:cut], order[cut:]))
    if not is_far:
        large = [moments[client] for client in order[cut:]]
        apart = all(each.mean - low.mean > 4 * each.deviation / math.sqrt(each.filled) for each in large)
        # A unit multiplies mean and deviation alike; a few large values do not.
        if not apart or not 0.5 <= high.deviation / low.deviation / (high.mean / low.mean) <= 2:
            return None
    above = 2 * cut >= len(order)
    named = {*(order[cut:] if above else order[:cut])}
    ratio, how = high.mean / low.mean if positive else 0.0, f"far {'above' if above else 'below'} the others"
    if ratio >= 1.5:  # inches are 2.54 times centimetres, and kilometres 1.6 times miles
        how = f"about {ratio:,.{1 if ratio < 5 else 0}f} times {'larger' if above else 'smaller'}"
    return _clients([client for client in moments if client in named]), how


def _pooled(moments: Sequence[Moments]) -> Moments:
    """Return the moments of several clients together; the deviation is that within clients."""
    filled = sum(each.filled for each in moments)
    mean = sum(each.filled * each.mean for each in moments) / filled
    deviation = math.sqrt(sum(each.filled * each.deviation**2 for each in moments) / filled)
    return Moments(filled, mean, deviation, min(each.low for each in moments), max(each.high for each in moments))


def _disjoint(levels: Mapping[str, Sequence[str]], frequencies: Frequencies) -> str:
    """Return at which clients a column has no frequent category of the others, and hardly a row by chance."""
    parts = _parts({client: set(names) for client, names in levels.items() if names})
    apart = [part for part in parts[1:] if _are_apart(part, levels, frequencies)]
    if not apart:
        return ""
    if len(parts) > 2 and all(len(part) == 1 for part in parts):
        return "in common at any two clients"
    return f"at {_clients([client for part in apart for client in part])} that others have"


def _are_apart(part: Collection[str], levels: Mapping[str, Sequence[str]], frequencies: Frequencies) -> bool:
    """Return whether no client of a part has, but by chance, a tenth of the others' share of rows in their names."""
    if not frequencies:
        return True
    names = {name for client in levels if client not in part for name in levels[client]}

    def share(clients: Iterable[str]) -> tuple[float, float]:
        """Return which part of clients' rows is in what the others name, and how many rows there are."""
        rows = [frequencies[client] for client in clients]
        filled = sum(sum(by_level.values()) for by_level in rows)
        return sum(by_level.get(name, 0.0) for by_level in rows for name in names) / max(filled, 1.0), filled

    usual, _ = share(client for client in frequencies if client not in part)
    shares = [share([client]) for client in part]
    return all(inside <= 0.1 * usual and (1 - usual) ** filled <= _CHANCE for inside, filled in shares)


# Names of columns, labels, and arrays.


def check_names(names: Mapping[int, Collection[str]]) -> list[Finding]:
    """Return a finding on columns whose names differ in spelling alone and count as different; by each client's."""
    alike = [" and ".join(f"'{name}'" for name in group) for group in _spelt_alike(names)]
    sentence = (
        f"Columns {listing(alike, 8)} differ in spelling alone and count as different; give them one name if they are "
        "the same."
    )
    return [Finding(sentence, "spelling")] if alike else []


def check_labels(by_client: Mapping[str, Sequence[str]]) -> tuple[list[Finding], list[Finding]]:
    """Return findings on labels, by client: those on spellings, and those on clients that share none with others.

    If no two clients share a label, each may have classes of its own, and nothing is said.
    """
    spelt = _spelt_by_clients(by_client)
    sentence = (
        f"Labels that differ in spelling alone are different classes: {spelt}; spell them alike if they are the same."
    )
    findings = [Finding(sentence, "labels")] if spelt else []
    parts = _parts({client: set(labels) for client, labels in by_client.items() if labels})
    if len(parts) < 2 or all(len(part) == 1 for part in parts):
        return findings, []
    apart = " and ".join(f"{_clients(part)} ('{by_client[part[0]][0]}', ...)" for part in parts[1:])
    sentence = (
        f"No label of {apart} is one of the other clients', which alone can make clusters of clients; write labels "
        "alike if they mean the same."
    )
    return findings, [Finding(sentence, "labels")]


def check_arrays(ends: Mapping[str, tuple[Tensor, Tensor]]) -> list[Finding]:
    """Return a finding if values of some clients reach 25 times as far from 0 as all others', as bytes and fractions.

    That is so in most columns, as a few values may be outliers. `ends` are by client's name the minima and maxima of
    its columns or channels, float64 ``(columns,)``.
    """
    by_column = torch.stack([torch.maximum(-low, high) for low, high in ends.values()])
    by_column = by_column[:, (by_column > 0).any(0)]
    if not by_column.numel():
        return []
    sizes = {name: size for name, size in zip(ends, by_column.median(1).values.tolist(), strict=True) if size > 0}
    order, cut, widest = _widest(sizes, ratio=True) if len(sizes) > 1 else ([], 0, 0.0)
    if widest <= 25:
        return []
    few, rest = (order[cut:], order[:cut]) if 2 * cut >= len(order) else (order[:cut], order[cut:])
    sentence = (
        f"The largest values at {_clients([name for name in sizes if name in few])} are about "
        f"{max(sizes[name] for name in few):.3g}, and those of all others about "
        f"{max(sizes[name] for name in rest):.3g}; give all one unit, as pixels from 0 to 255 or from 0 to 1."
    )
    return [Finding(sentence, "unit")]


# Cells of clients' tables.


def check_cells(tables: Mapping[str, Table]) -> list[Finding]:
    """Return findings on the cells of clients' tables, by name."""
    return [*_same_rows(tables), *_missing_codes(tables)]


def _same_rows(tables: Mapping[str, Table]) -> list[Finding]:
    """Find clients that have more than half of their rows in common with another, and hardly repeat their own."""
    findings, owner = [], dict[bytes, str]()
    for client, table in tables.items():
        if len(table) < _FEWEST or len(table.columns) < 3:
            continue
        rows = list(dict.fromkeys(_rows_of(table)))
        if len(rows) < 0.9 * len(table):
            continue
        shared = Counter(owner[row] for row in rows if row in owner)
        if shared and (first := shared.most_common(1)[0])[1] > len(rows) / 2:
            held = f"{client} holds {first[1]:,} of its {len(rows):,} different rows at {first[0]}, too"
            findings.append(Finding(f"{held}; leave it out if it is a copy.", "same rows"))
        owner |= dict.fromkeys(rows, client)
    return findings


def _rows_of(table: Table) -> Iterator[bytes]:
    """Yield the values of each row in order of the columns' names, of a category a checksum of its text."""
    order = sorted(range(len(table.columns)), key=lambda i: table.columns[i].name)
    cells = table.values.numpy()[:, order] + 0.0  # there is no -0
    for i, column in enumerate(table.columns[i] for i in order):
        if column.is_coded:
            texts = np.array([*(crc32(category.encode()) for category in column.categories), np.nan])
            cells[:, i] = texts[np.nan_to_num(cells[:, i], nan=-1).astype(int)]
    cells[np.isnan(cells)] = np.nan  # one of the many kinds of NaN
    return (row.tobytes() for row in cells)


def _missing_codes(tables: Mapping[str, Table]) -> list[Finding]:
    """Find values that seem to stand for empty cells, such as 9999, see `_codes_in`; the same in columns is one."""
    cells: dict[tuple[str, Kind], dict[str, npt.NDArray[np.float64]]] = {}
    for client, table in tables.items():
        for column, values in zip(table.columns, table.values.numpy().T, strict=True):
            if column.kind in MEASURED:
                cells.setdefault((column.name, column.kind), {})[client] = values[~np.isnan(values)]
    codes: dict[tuple[str | float, str], dict[str, dict[str, int]]] = {}
    for (name, kind), by_client in cells.items():
        for value, place in _codes_in(np.concatenate([*by_client.values()]), kind):
            rows = {client: int((values == value).sum()) for client, values in by_client.items()}
            written = (
                str(np.datetime64(int(value), "D")) if kind == "date" else int(value) if value.is_integer() else value
            )
            codes.setdefault((written, place), {})[name] = {client: count for client, count in rows.items() if count}
    return [
        Finding(
            f"{_columns([*by_name], 'holds', 'hold')} {written}, far {place} all other values, in "
            f"{listing([f'{sum(rows.values())} rows of {_clients([*rows])}' for rows in by_name.values()], 5)}; if it "
            "is no true value but stands for a missing one, "
            f"{setting('na_values', {name: [written] for name in by_name})}.",
            "missing code",
        )
        for (written, place), by_name in codes.items()
    ]


def _codes_in(cells: npt.NDArray[np.float64], kind: Kind) -> Iterator[tuple[float, str]]:
    """Yield values at the ends of a column that seem to stand for empty cells, and at which end they are.

    They are in five rows or more, and three times as far from all others as nine tenths of these are from each other;
    beside ten values or fewer, as of grades, 9 is a value.
    """
    values, counts = np.unique(cells, return_counts=True)
    if len(values) <= 10:
        return
    for end, place in ((0, "below"), (-1, "above")):
        rest = cells[cells != values[end]]
        if MIN_MEMBERS <= counts[end] <= len(rest):
            least, most = np.quantile(rest[rest != values[-1 - end]], (0.05, 0.95))  # a code may be at either end
            gap = abs(values[end] - values[1 if end == 0 else -2])
            is_zero = kind == "number" and end == values[0] == 0 and _never_near_zero(values, rest, len(cells))
            if gap > 3 * (most - least) or is_zero:
                yield float(values[end]), place


def _never_near_zero(values: npt.NDArray[np.float64], rest: npt.NDArray[np.float64], rows: int) -> bool:
    """Return whether 0, the least of the different `values`, is far from all the `rest` and in a quarter of rows.

    It is far by the others' median and by their steps, so not in counts, whose least value is a step above 0.
    """
    step = np.median(np.diff(values[1 : 1 + max(10, len(values) // 4)]))
    return bool(values[1] >= max(np.median(rest) / 3, 8 * step)) and rows - len(rest) <= 0.25 * rows
