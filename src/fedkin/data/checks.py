"""Checks of clients' data against each other: what differs between clients and may be no difference of their samples.

There are ten, see `Check`. Each finding names columns and clients and ends in the option that helps; the data are used
as they are. What is odd in one table alone is no matter of this module. Four need cells (`check_cells`) and are made
where these are, so in a real federation at each site; the others take what clients report anyway. No finding holds a
value that fewer than five rows share.

Constants are chosen on the tables of one half of R's packages, whose rows three clients have at random, so that fewer
than one table in 100 raises a false alarm, and judged on the other half (``benchmarks/all_r_tables.py``, `choose` and
`checks`). By these tables units could differ less; but clients whose samples differ in truth are not among them.
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

from fedkin.core.errors import has_option, listing, mid_sentence, setting
from fedkin.core.table import MEASURED, Kind, Table
from fedkin.data.encoding import OTHER, TableEncoding
from fedkin.data.options import MIN_MEMBERS
from fedkin.data.scaling import as_written
from fedkin.data.schema import ColumnReport, SchemaColumn, aligned, quoted
from fedkin.data.tables import is_called_recurring

Check = Literal[
    "unit", "spelling", "disjoint", "missing code", "constant", "identifier", "same rows", "leak", "few rows", "empty",
    "labels",
]  # fmt: skip

_FAR, _TIMES, _AGREE, _ERRORS = 4.0, 5.0, 2.0, 4.0
"""Units differ if means are so many standard deviations within clients apart; or if they have such a ratio, that of
deviations is the same up to a factor, and the mean is so many standard errors away; or if deviations have such a ratio
and no value is farther from the mean than so many: measured, see above."""
_SHOWN = 1.5
"""Ratio of means from which on it is in the sentence, as 2.54 for inches and 1.61 for miles."""
_LARGER = 25.0
"""Ratio of the largest distances of arrays from 0 from which on they are in another unit, as bytes and fractions."""
_CHANCE = 1e-5
"""Probability below which one value, or none of the others', at a client is no chance: 1,000 columns at ten clients."""
_FEWEST = 20
"""Rows of a client from which on it may have one value, no value of the others, or the rows of another."""
_DISTINCT = 10
"""Other values that a measure has at least, so that grades are none; beside them 9 is a value."""
_GAPS = 3.0
"""Distance of a code from all other values, by that of nine tenths of these from each other: measured, see above."""
_ABOVE_ZERO, _STEPS, _ZEROS = 1 / 3, 8, 0.25
"""Of a measure that is never near 0: its least value by its median, and by the usual step between its small values; and
the part of zeros at most, for more of them are often true: measured, see above."""


class Finding(str):
    """Sentence of a check; what is written to files or sent has the sentence alone."""

    check: Check

    def __new__(cls, check: Check, sentence: str) -> Self:
        finding = super().__new__(cls, sentence)
        finding.check = check
        return finding

    def __getnewargs__(self) -> tuple[Check, str]:  # type: ignore[override]
        return self.check, str(self)


# Words of sentences.


def clients_in_words(names: Sequence[str]) -> str:
    """Return clients by name, of which only the first five are named."""
    return f"client{'s' * (len(names) > 1)} {listing([name.removeprefix('Client ') for name in names], 5)}"


def _columns(names: Sequence[str], plural: str, singular: str) -> str:
    return f"Columns {quoted(names)} {plural}" if len(names) > 1 else f"Column {quoted(names)} {singular}"


def _drop(names: Sequence[str]) -> str:
    return setting("drop", [*names])


def _without(clients: Sequence[str]) -> str:
    """Return how clients are left out; those without a name go by their number."""
    if not has_option("federation.forgotten"):
        return f"leave {'them' if len(clients) > 1 else 'it'} out"
    numbers = [client.removeprefix("Client ") for client in clients]
    return setting("federation.forgotten", [int(name) if name.isdecimal() else name for name in numbers])


_ALIKE = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "\u00ad": "", "\u200b": "", **dict.fromkeys("\u2010\u2011\u2012–—\u2212", "-")}
)
"""Umlauts, invisible hyphens and blanks, and hyphens, dashes and minus signs by the hyphen of the keyboard."""
_MARKS = re.compile(r"[\s_]|(?<=[^\W\d_])-(?=[^\W\d_])|(?<=[^\W\d_])\.")
"""What does not tell names apart; beside digits and at the end a sign may, as in A+ and A-."""


@functools.lru_cache(maxsize=2**16)  # a wide table's names come from every client
def _without_marks(name: str) -> str:
    return _MARKS.sub("", name.casefold().translate(_ALIKE))


def _spelt_alike(by_client: Mapping[Any, Collection[str]]) -> list[list[str]]:
    """Return groups of names that differ in case, blanks, marks and umlauts alone, and that no client has two of."""
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for names in by_client.values() for name in names):
        groups.setdefault(_without_marks(name), []).append(name)
    several = [group for group in groups.values() if len(group) > 1]
    return [group for group in several if all(len({*group}.intersection(names)) < 2 for names in by_client.values())]


def _spelt_by_clients(by_client: Mapping[str, Collection[str]]) -> str:
    """Return names that differ in spelling alone, each with a client that has it; empty if there are none."""
    first: dict[str, str] = {}
    for client, names in by_client.items():
        first = {**dict.fromkeys(names, client), **first}
    groups = _spelt_alike(by_client)
    return "; ".join(", ".join(f"'{name}' ({clients_in_words([first[name]])})" for name in group) for group in groups)


def _parts(values: Mapping[str, set[str]]) -> list[list[str]]:
    """Return clients in parts that share values, the part of most clients first."""
    parts: list[tuple[list[str], set[str]]] = []
    for client, held in values.items():
        met = [part for part in parts if part[1] & held]
        joined = [*(name for part in met for name in part[0]), client], held.union(*(part[1] for part in met))
        parts = [*(part for part in parts if part not in met), joined]
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


def column_moments(
    names: Sequence[str], means: Tensor, replies: Mapping[str, Mapping[str, Any]], squares: Mapping[str, Tensor]
) -> dict[str, dict[str, Moments]]:
    """Return the moments of columns from what clients report, by column and client.

    `means`, float64 ``(columns,)``, are those of all clients. `replies` have by client's name the ``names`` of its
    columns, and float64 ``filled``, ``sum``, ``min`` and ``max`` of each; `squares`, float64 ``(columns,)``, are sums
    of squared distances from `means`.
    """
    moments: dict[str, dict[str, Moments]] = {name: {} for name in names}
    center = dict(zip(names, means.tolist(), strict=True))
    for client, reply in replies.items():
        around = dict(zip(names, squares[client].tolist(), strict=True))
        sent = (reply[key].tolist() for key in ("filled", "sum", "min", "max"))
        for name, filled, total, low, high in zip(reply["names"], *sent, strict=True):
            if filled and name in moments:
                mean = total / filled
                away = mean - center[name]
                varies = low < high and math.isfinite(away)  # of one value only rounding is left
                deviation = math.sqrt(max(0.0, around[name] / filled - away * away)) if varies else 0.0
                moments[name][client] = Moments(filled, mean, deviation, low, high)
    return moments


def check_columns(
    columns: Sequence[SchemaColumn],
    reports: Mapping[str, Mapping[str, ColumnReport]],
    left_out: Collection[str] = (),
    means: Tensor | None = None,
    replies: Mapping[str, Mapping[str, Any]] | None = None,
    squares: Mapping[str, Tensor] | None = None,
    counts: Mapping[str, Sequence[Tensor]] | None = None,
) -> list[Finding]:
    """Return findings on columns that clients have agreed on, but for those that were `left_out` since.

    `reports` are those of each client, by name, of its columns. Without secure sums `means`, float64 ``(columns,)``,
    are those of all clients, `replies` those to `fedkin.data.statistics.moments`, and `squares` and `counts` by client
    its sums of squared distances from the means, and the frequencies of each column's categories.
    """
    compared = [column for column in columns if column.name not in left_out]
    moments: dict[str, dict[str, Moments]] = {}
    if means is not None and replies is not None and squares is not None:
        moments = column_moments([column.name for column in columns], means, replies, squares)
    frequencies = {
        column.name: {
            client: dict(zip([*column.categories, ""], by_column[i].tolist(), strict=True))
            for client, by_column in (counts or {}).items()
        }
        for i, column in enumerate(columns)
        if column.kind == "category"
    }
    alike: dict[tuple[Check, str, str, str], list[str]] = {}  # columns of which the same is to be said
    units: dict[str, list[tuple[str, float]]] = {}
    for name, kind in ((column.name, column.kind) for column in compared):
        by_client = moments.get(name, {})
        if kind == "category":
            levels = {client: columns[name].categories for client, columns in reports.items() if name in columns}
            if spelt := _spelt_by_clients(levels):
                what = f"categories that differ in spelling alone and count as different: {spelt}; spell them alike if"
                alike.setdefault(("spelling", "have has", f"{what} they are the same, or ", ""), []).append(name)
            elif apart := _disjoint(levels, frequencies[name]):
                what = f"no frequent value {apart}; spell values alike if they are the same, or "
                alike.setdefault(("disjoint", "have has", what, ""), []).append(name)
            constant = _constant_categories(frequencies[name])
        else:
            if kind == "number" and (codes := _codes(by_client)):
                what = f"{codes}; write these codes alike, or "
                alike.setdefault(("spelling", "hold holds", what, ""), []).append(name)
            elif kind in MEASURED and (unit := _unit(by_client, kind)):
                units.setdefault(unit[0], []).append((name, unit[1]))
            constant = [] if kind == "ordinal" else _constant_numbers(by_client)
        for client in constant:
            what = f"one value at {clients_in_words([client])}, and others elsewhere; "
            alike.setdefault(("constant", "have has", what, " if not recorded there"), []).append(name)
    findings = [
        Finding(check, f"{_columns(names, *verbs.split())} {what}{_drop(names)}{end}.")
        for (check, verbs, what, end), names in alike.items()
    ]
    findings += [Finding("unit", _unit_sentence(how, pairs)) for how, pairs in units.items()]
    ids = [column.name for column in compared if column.kind == "number" and is_called_recurring(column.name)]
    if ids:
        called = _columns(
            ids, "are called like ids and count as numbers", "is called like an id and counts as a number"
        )
        findings.append(Finding("identifier", f"{called}; {_drop(ids)}, or {setting('categorical', ids)}."))
    return findings


def _unit(moments: ByClient, kind: Kind) -> tuple[str, float] | None:
    """Return at which clients values are far from the others', or many times as large, and how, and how many times.

    Clients are divided at the widest gap between their means, or the widest ratio, which is that of deviations if some
    values are negative; then a few values far from all others are no reason. The fewer clients are named, and of
    equally many those with larger values.
    """
    moments = {client: each for client, each in moments.items() if each.filled >= MIN_MEMBERS}
    if len(moments) < 2:
        return None
    positive = kind == "number" and all(client.low >= 0 < client.mean for client in moments.values())
    order = sorted(moments, key=lambda client: moments[client].mean)
    gaps = [moments[after].mean - moments[before].mean for before, after in pairwise(order)]
    cut, pooled = 1 + gaps.index(max(gaps)), _pooled([*moments.values()])
    is_far = max(gaps) > max(_FAR * pooled.deviation, 1e-9 * abs(pooled.high))
    if not is_far:
        sizes = {client: each.mean if positive else each.deviation for client, each in moments.items()}
        order = sorted(moments, key=sizes.__getitem__)
        if kind != "number" or not all(client.deviation > 0 for client in moments.values()):
            return None
        ratios = [sizes[after] / sizes[before] for before, after in pairwise(order)]
        cut = 1 + ratios.index(max(ratios))
        if max(ratios) < _TIMES:
            return None
    low, high = (_pooled([moments[client] for client in part]) for part in (order[:cut], order[cut:]))
    large = [moments[client] for client in order[cut:]]
    if not is_far and positive:
        errors = [_ERRORS * client.deviation / math.sqrt(client.filled) for client in large]
        apart = all(client.mean - low.mean > error for client, error in zip(large, errors, strict=True))
        if not apart or not 1 / _AGREE <= high.deviation / low.deviation / (high.mean / low.mean) <= _AGREE:
            return None
    if not is_far and not positive:
        near = [max(each.high - each.mean, each.mean - each.low) <= _ERRORS * each.deviation for each in large]
        if not all(near) or min(client.filled for client in moments.values()) < _FEWEST:
            return None
    above = 2 * cut >= len(order)
    few, rest = (order[cut:], order[:cut]) if above else (order[:cut], order[cut:])
    reference = "the others" if len(rest) > 1 else clients_in_words(rest)
    ratio = high.mean / low.mean if positive else 0.0 if is_far else high.deviation / low.deviation
    how = f"far {'above' if above else 'below'} what it is at {reference}"
    if ratio >= _SHOWN:
        how = f"about {{times}} times {'as large as' if above else 'smaller than'} at {reference}, in the mean"
    clients = clients_in_words([client for client in moments if client in few])
    return f"{clients} is {how}; {'' if kind == 'date' else 'give it one unit, or '}", ratio


def _pooled(moments: Sequence[Moments]) -> Moments:
    """Return the moments of several clients together; the deviation is that within clients."""
    filled = sum(each.filled for each in moments)
    mean = sum(each.filled * each.mean for each in moments) / filled
    deviation = math.sqrt(sum(each.filled * each.deviation**2 for each in moments) / filled)
    return Moments(filled, mean, deviation, min(each.low for each in moments), max(each.high for each in moments))


def _unit_sentence(how: str, pairs: Sequence[tuple[str, float]]) -> str:
    names, ratios = [name for name, _ in pairs], [ratio for _, ratio in pairs]
    least, most = (f"{end(ratios):,.{1 if min(ratios) < _TIMES else 0}f}" for end in (min, max))
    how = how.format(times=least if least == most else f"{least} to {most}")
    if len(names) == 1:
        return f"Column {quoted(names)} at {how}{_drop(names)} if it is no feature of samples."
    how = how.replace(" is ", " are ", 1).replace("it is at", "they are at").replace("give it", "give them")
    return f"Columns {quoted(names)} at {how}{_drop(names)} if they are no features of samples."


def _codes(moments: ByClient) -> str:
    """Return the two whole numbers that a column holds at every client, each in five rows, if they are not the same.

    All values are minimum or maximum if, and only if, the variance is as large as these allow.
    """
    pairs: dict[tuple[float, float], list[str]] = {}
    for client, (filled, mean, deviation, low, high) in moments.items():
        rarer = filled * min(mean - low, high - mean) / ((high - low) or 1.0)
        exact = abs((high - mean) * (mean - low) - deviation**2) <= 1e-9 * (high - low) ** 2
        if not (low.is_integer() and high.is_integer() and exact and round(rarer) >= MIN_MEMBERS):
            return ""
        pairs.setdefault((low, high), []).append(client)
    if len(pairs) < 2 or len({end for pair in pairs for end in pair}) == 2 * len(moments):
        return ""
    return ", ".join(
        f"{low:.15g} and {high:.15g} at {clients_in_words(clients)}" for (low, high), clients in pairs.items()
    )


def _disjoint(levels: Mapping[str, Sequence[str]], frequencies: Frequencies) -> str:
    """Return at which clients a column has no frequent category of the others, and hardly a row by chance."""
    parts = _parts({client: set(names) for client, names in levels.items() if names})
    apart = [part for part in parts[1:] if _are_apart(part, levels, frequencies)]
    if not apart:
        return ""
    if len(parts) > 2 and all(len(part) == 1 for part in parts):
        return "in common at any two clients"
    return f"at {clients_in_words([client for part in apart for client in part])} that others have"


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


def _constant_numbers(moments: ByClient) -> list[str]:
    """Return clients, fewer than half, at which a column has one value, while the others surely have more.

    How many of the others' numbers are not that value is at least their mean square distance from it by the largest.
    """
    same = [client for client, each in moments.items() if each.low == each.high]
    rest = [each for client, each in moments.items() if client not in same]
    constant = []
    for client in same if 2 * len(same) < len(moments) else ():
        value = moments[client].low
        reach = max(max(abs(each.high - value), abs(each.low - value)) for each in rest)
        squares = [(each.deviation / reach) ** 2 + ((each.mean - value) / reach) ** 2 for each in rest]
        filled = [each.filled for each in rest]
        share = sum(count * square for count, square in zip(filled, squares, strict=True)) / sum(filled)
        constant += [client] if _is_no_chance(moments[client].filled, share) else []
    return constant


def _constant_categories(frequencies: Frequencies) -> list[str]:
    held = {client: [level for level, rows in rows_of.items() if rows] for client, rows_of in frequencies.items()}
    same = {client: levels[0] for client, levels in held.items() if len(levels) == 1}
    rest = [rows_of for client, rows_of in frequencies.items() if client not in same]
    filled = sum(sum(rows_of.values()) for rows_of in rest)
    if not filled or 2 * len(same) >= len(frequencies):
        return []
    shares = {client: 1 - sum(rows_of.get(level, 0.0) for rows_of in rest) / filled for client, level in same.items()}
    return [client for client, share in shares.items() if _is_no_chance(sum(frequencies[client].values()), share)]


def _is_no_chance(rows: float, share: float) -> bool:
    """Return whether so many rows would hardly all miss a `share` of the others' by chance."""
    return rows >= _FEWEST and (1 - min(share, 1.0)) ** rows <= _CHANCE


# Names of columns, labels, and arrays.


def check_names(names: Mapping[int, Collection[str]]) -> list[Finding]:
    """Return a finding on columns whose names differ in spelling alone and count as different; by each client's."""
    alike = [" and ".join(f"'{name}'" for name in group) for group in _spelt_alike(names)]
    sentence = (
        f"Columns {listing(alike, 8)} differ in spelling alone and count as different; give them one name if they are "
        "the same."
    )
    return [Finding("spelling", sentence)] if alike else []


def check_labels(by_client: Mapping[str, Sequence[str]]) -> tuple[list[Finding], list[Finding]]:
    """Return findings on labels, by client: those on spellings, and those on clients that share none with others.

    If no two clients share a label, each may have classes of its own, and nothing is said.
    """
    spelt = _spelt_by_clients(by_client)
    sentence = (
        f"Labels that differ in spelling alone are different classes: {spelt}; spell them alike if they are the same."
    )
    findings = [Finding("labels", sentence)] if spelt else []
    parts = _parts({client: set(labels) for client, labels in by_client.items() if labels})
    if len(parts) < 2 or all(len(part) == 1 for part in parts):
        return findings, []
    apart = " and ".join(f"{clients_in_words(part)} ('{by_client[part[0]][0]}', ...)" for part in parts[1:])
    sentence = (
        f"No label of {apart} is one of the other clients', which alone can make clusters of clients; write labels "
        "alike if they mean the same."
    )
    return findings, [Finding("labels", sentence)]


def check_arrays(ends: Mapping[str, tuple[Tensor, Tensor]]) -> list[Finding]:
    """Return a finding if some clients' values reach many times as far from 0 as those of all others.

    That is so in most columns, as a few values may be outliers. `ends` are by client's name the minima and maxima of
    its columns or channels, float64 ``(columns,)``.
    """
    by_column = torch.stack([torch.maximum(-low, high) for low, high in ends.values()])
    sizes = {name: size for name, size in zip(ends, _typical(by_column), strict=True) if size > 0}
    order = sorted(sizes, key=sizes.__getitem__)
    ratios = [sizes[large] / sizes[small] for small, large in pairwise(order)]
    if not ratios or max(ratios) <= _LARGER:
        return []
    cut = 1 + ratios.index(max(ratios))
    few, rest = (order[cut:], order[:cut]) if 2 * cut >= len(order) else (order[:cut], order[cut:])
    most, most_of_rest = (max(sizes[name] for name in part) for part in (few, rest))
    sentence = (
        f"The largest values at {clients_in_words([name for name in sizes if name in few])} are about {most:.3g}, and "
        f"those of {'the other client' if len(rest) == 1 else 'all others'} about {most_of_rest:.3g}; give all one "
        "unit, as pixels from 0 to 255 or from 0 to 1."
    )
    return [Finding("unit", sentence)]


def _typical(sizes: Tensor) -> list[float]:
    """Return the median over columns of sizes ``(sources, columns)``, of those in which any is above 0."""
    used = sizes[:, (sizes > 0).any(0)]
    return [float(row.median()) if len(row) else 0.0 for row in used]


# Cells of clients' tables.


def check_cells(tables: Mapping[str, Table], labels: Mapping[str, Sequence[Any]] | None = None) -> list[Finding]:
    """Return findings on the cells of clients' tables, by name, and on their rows' labels, if there are any."""
    return [*_few_rows(tables), *_same_rows(tables), *_missing_codes(tables), *_leaks(tables, labels or {})]


def _few_rows(tables: Mapping[str, Table]) -> list[Finding]:
    """Find clients with fewer rows than they report anything of, beside others with more."""
    few = [client for client, table in tables.items() if len(table) < MIN_MEMBERS]
    if not few or len(few) == len(tables):
        return []
    sentence = f"Nothing is reported of {listing(few, 8)}, with fewer than {MIN_MEMBERS} rows; {_without(few)}."
    return [Finding("few rows", sentence)]


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
            sentence = (
                f"{client} holds {first[1]:,} of its {len(rows):,} different rows at {first[0]}, too; "
                f"{_without([client])} if it is a copy."
            )
            findings.append(Finding("same rows", sentence))
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


def _leaks(tables: Mapping[str, Table], labels: Mapping[str, Sequence[Any]]) -> list[Finding]:
    """Find columns of which each value stands for one label, and each label for one value, at all clients."""
    pairs: dict[str, set[tuple[Any, str]]] = {}
    missing: Counter[str] = Counter()
    labels = {client: [*map(str, labels[client])] for client in labels if client in tables}
    for client, names in labels.items():
        for column, cells in zip(tables[client].columns, tables[client].values.numpy().T, strict=True):
            filled = ~np.isnan(cells)
            missing[column.name] += int((~filled).sum())
            met = pairs.setdefault(column.name, set())
            if len(met) <= MIN_MEMBERS * _DISTINCT:  # of more values no classes are made
                codes = cells[filled].tolist()
                values = [column.categories[int(code)] for code in codes] if column.is_coded else codes
                met |= {*zip(values, np.array(names)[filled].tolist(), strict=True)}
    rows = sum(map(len, labels.values()))
    leaks = [
        name
        for name, met in pairs.items()
        if rows >= _FEWEST and 10 * missing[name] <= rows
        and 1 < len(met) == len({value for value, _ in met}) == len({label for _, label in met})
    ]  # fmt: skip
    if not leaks:
        return []
    says = _columns(leaks, "say", "says")
    return [
        Finding("leak", f"{says} what the labels say, value by value; {_drop(leaks)}, or clusters show the labels.")
    ]


def _missing_codes(tables: Mapping[str, Table]) -> list[Finding]:
    """Find values that seem to stand for empty cells, such as 9999; one in four columns or more is one finding.

    They are at an end of a column of all clients, in five rows or more, and three times as far from all others as nine
    tenths of these are from each other. Or 0, if all else is far from it.
    """
    cells: dict[tuple[str, Kind], dict[str, npt.NDArray[np.float64]]] = {}
    for client, table in tables.items():
        for column, values in zip(table.columns, table.values.numpy().T, strict=True):
            if column.kind in ("number", "date"):
                cells.setdefault((column.name, column.kind), {})[client] = values[~np.isnan(values)]
    codes: dict[tuple[str, str], dict[str, Counter[str]]] = {}
    for (name, kind), by_client in cells.items():
        for value, place in _codes_in(np.concatenate([*by_client.values()]), kind):
            rows = Counter({client: int((values == value).sum()) for client, values in by_client.items()})
            codes.setdefault((as_written(value, kind), place), {})[name] = +rows  # of more than none
    findings = []
    for (written, place), of_columns in codes.items():
        for names in [[*of_columns]] if len(of_columns) > 3 else [[name] for name in of_columns]:
            most: Counter[str] = functools.reduce(Counter.__or__, (of_columns[name] for name in names))
            rows_of = [f"{count} row{'s' * (count != 1)} of {client}" for client, count in most.items()]
            number = float(written) if re.fullmatch(r"[-+.\de]+", written) and "-" not in written[1:] else written
            code = int(number) if isinstance(number, float) and number.is_integer() else number
            sentence = (
                f"{_columns(names, 'hold', 'holds')} {written}, {place}, in {'up to ' * (len(names) > 1)}"
                f"{listing(rows_of, 5)}; if it is no true value but stands for a missing one, "
                f"{setting('na_values', {name: [code] for name in names})}."
            )
            findings.append(Finding("missing code", sentence))
    return findings


def _codes_in(cells: npt.NDArray[np.float64], kind: Kind) -> Iterator[tuple[float, str]]:
    """Yield values at the ends of a column that seem to stand for empty cells, and at which end they are."""
    values, counts = np.unique(cells, return_counts=True)
    if len(values) <= _DISTINCT:
        return
    for end, place in ((0, "far below all other values"), (-1, "far above all other values")):
        rest = cells[cells != values[end]]
        if MIN_MEMBERS <= counts[end] <= len(rest):
            least, most = np.quantile(rest[rest != values[-1 - end]], (0.05, 0.95))  # a code may be at either end
            gap = abs(values[end] - values[1 if end == 0 else -2])
            is_zero = kind == "number" and end == values[0] == 0 and _never_near_zero(values, rest, len(cells))
            if gap > _GAPS * (most - least) or is_zero:
                yield float(values[end]), place


def _never_near_zero(values: npt.NDArray[np.float64], rest: npt.NDArray[np.float64], rows: int) -> bool:
    """Return whether 0, the least of the different `values`, is far from all the `rest` and in few of the rows.

    It is far by the others' median and by their steps, so not in counts, whose least value is a step above 0.
    """
    step = np.median(np.diff(values[1 : 1 + max(_DISTINCT, len(values) // 4)]))
    far = values[1] >= max(_ABOVE_ZERO * np.median(rest), _STEPS * step)
    return bool(far) and rows - len(rest) <= _ZEROS * rows


# New samples.


def check_new_arrays(x: Tensor, reach: Tensor, origin: str) -> list[Finding]:
    """Return a finding if new samples are in most columns many times as large as those of fit, or as small.

    `x` is float32 ``(n, columns)`` or ``(n, channels, height, width)``, not empty, and `reach` float64 ``(2, columns)``
    are the ends of all clients' values; `origin` names the samples.
    """
    if x.shape[1] != reach.shape[1]:
        return []
    size, usual = _typical(torch.stack([x.abs().amax((0, *range(2, x.ndim))).double(), reach.abs().amax(0)]))
    if not size or not usual or (size <= _LARGER * usual and (size * _LARGER >= usual or len(x) < MIN_MEMBERS)):
        return []
    sentence = (
        f"The largest values of {mid_sentence(origin)} are about {size:.3g}, and those of fit were about {usual:.3g}; "
        "are they in another unit?"
    )
    return [Finding("unit", sentence)]


def check_new_rows(table: Table, encoding: TableEncoding, origin: str, reach: Tensor | None = None) -> list[Finding]:
    """Return findings on categories that the schema does not name, and on numbers far from those of the clients.

    The table has the schema's columns; `origin` names it, within a sentence. `reach`, float64 ``(2, columns)``, are the
    ends of all clients' values, if these are known: on rows within them, as those of training are, there is none.
    Nor is there one on categories that are as rare as those which were pooled as *other*.
    """
    columns = encoding.schema.columns
    values = aligned(table, columns, origin, encoding.imputes)
    findings = []
    for i, (column, (_, start, _)) in enumerate(zip(columns, encoding.blocks, strict=True)):
        called, cells = f"'{column.name}' of {mid_sentence(origin)}", values[:, i][~values[:, i].isnan()]
        if column.kind == "category" and column.name in table.names:
            rows = int((cells == len(column.categories)).sum())
            rare = float(encoding.mean[start + len(column.categories)]) if bool(encoding.other[i]) else None
            usual = len(cells) * (rare or 0.0)  # and four standard deviations more are chance
            if rows and (rare is None or rows > usual + 4 * math.sqrt(usual + 1)):
                how = "no client has named such categories" if rare is None else f"they count as '{OTHER}'"
                rows_in = f"in {rows} of {len(values)} rows"
                sentence = f"Column {called} holds categories {rows_in} that are not in the clients' tables; {how}."
                findings.append(Finding("disjoint", sentence))
        elif column.kind in MEASURED and encoding.mode in ("standard", "common") and encoding.scale[start] != 1:
            mean, scale = float(encoding.mean[start]), float(encoding.scale[start])
            ends = None if reach is None else (float(reach[0, i]), float(reach[1, i]))
            findings += _unlike_numbers(called, cells, mean, scale, ends, column.kind) if len(cells) else []
    return findings


def _unlike_numbers(
    called: str, cells: Tensor, mean: float, scale: float, ends: tuple[float, float] | None, kind: Kind
) -> list[Finding]:
    """Find new numbers that are all far from the clients', or many times as large, or some that are very far."""
    low, high = ends or (-math.inf, math.inf)
    far, beyond = (cells - mean).abs() / scale, (cells < low) | (cells > high) | torch.tensor(ends is None)
    if len(cells) >= 3 and bool(((far > _FAR) & beyond).all()):
        return [
            Finding(
                "unit", f"All values of column {called} are far from those of the clients; are they in another unit?"
            )
        ]
    least, most, average = float(cells.min()), float(cells.max()), float(cells.mean())
    positive = kind == "number" and least > 0 and mean > 0 and (ends is None or low >= 0)
    if positive and len(cells) >= MIN_MEMBERS and (most < mean or least > mean):
        times = max(mean / average, average / mean)
        surely = abs(mean - average) / scale * math.sqrt(len(cells)) > _FAR + 1
        if (times >= _TIMES and surely) or (times >= _SHOWN and ends is not None and bool(beyond.all())):
            side, size = ("below", "smaller") if average < mean else ("above", "as large")
            sentence = (
                f"All values of column {called} are {side} the mean of the clients, about "
                f"{times:,.{0 if times >= _TIMES else 1}f} times {size} in the mean; are they in another unit?"
            )
            return [Finding("unit", sentence)]
    reach = high - low
    very = (far > 20) & ((cells < low - reach) | (cells > high + reach))  # no measurement is so far
    if ends is None or not bool(very.any()):
        return []
    count = int(very.sum())
    sentence = (
        f"Column {called} holds {as_written(float(cells[very][far[very].argmax()]), kind)}, far from the clients' "
        f"values, in {count} row{'s' * (count > 1)}; is it in another unit, or does it stand for a missing value?"
    )
    return [Finding("missing code", sentence)]
