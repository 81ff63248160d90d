"""Checks of clients' data against each other: what differs between clients and may be no difference of their samples.

There are ten, see `Check`. Each finding names columns and clients and ends in the option that helps; the data are used
as they are. What is odd in one table alone is no matter of this module. Three need cells (`check_cells`) and are made
where these are, so in a real federation at each site; the others take what clients report anyway. No finding holds a
value that fewer than five rows share.

Constants are chosen on the tables of one half of R's packages, whose rows three clients have at random, so that fewer
than one table in 100 raises a false alarm, and judged on the other half (``benchmarks/all_r_tables.py``, `choose` and
`checks`). By these tables units could differ less; but clients whose samples differ in truth are not among them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedkin.core.doors import has_option, setting
from fedkin.core.errors import listing, mid_sentence
from fedkin.core.table import MEASURED, Column, Kind, Table
from fedkin.data.cells import as_known, is_called_recurring
from fedkin.data.encoding import OTHER, TableEncoding
from fedkin.data.scaling import as_written
from fedkin.data.schema import (
    MIN_MEMBERS,
    SchemaColumn,
    aligned,
    clients_in_words,
    spelt_alike,
    spelt_as,
    with_names,
)

Check = Literal[
    "unit",
    "spelling",
    "disjoint",
    "missing code",
    "constant",
    "identifier",
    "same rows",
    "leak",
    "few rows",
    "empty",
    "labels",
]
Values = npt.NDArray[np.float64]

_NAMED = 8
"""Columns that a sentence names."""
_FAR, _TIMES, _AGREE, _ERRORS = 4.0, 5.0, 2.0, 4.0
"""Units differ if means are so many standard deviations within clients apart; or if they have such a ratio, that of
deviations is the same up to a factor, and the mean is so many standard errors away; or if deviations have such a ratio
and no value is farther from the mean than so many: measured, see above."""
_LARGER, _VERY_FAR = 25.0, 20.0
"""Ratio of the largest distances of arrays from 0 from which on they are in another unit; and standard deviations from
which on a new value is no measurement."""
_SAID = 1.5
"""Ratio of means from which on it is said, as 2.54 for inches and 1.61 for miles."""
_CHANCE = 1e-5
"""Probability below which one value, or none of the others', at a client is no chance: 1,000 columns at ten clients."""
_FEWEST = 20
"""Rows of a client from which on it may have one value, or the rows of another."""
_EXACT = 1e-9
"""Relative difference that rounding makes."""
_SHARED, _REPEATED = 0.5, 0.1
"""Part of a client's rows that another has, from which on they are the same; and part that a table may repeat."""
_DISTINCT = 10
"""Other values that a measure has at least, so that grades are none; beside them 9 is a value."""
_GAPS = 3.0
"""Distance of a code from all other values, by that of nine tenths of these from each other: measured, see above."""
_ABOVE_ZERO, _STEPS, _ZEROS = 1 / 3, 8, 0.25
"""Of a measure that is never near 0: its least value by its median, and by the usual step between its small values; and
the part of zeros at most, for where they are more they are often true: measured, see above."""


class Finding(str):
    """Sentence of a check; what is written to files or sent has the sentence alone."""

    check: Check

    def __new__(cls, check: Check, sentence: str) -> Self:
        made = super().__new__(cls, sentence)
        made.check = check
        return made

    def __getnewargs__(self) -> tuple[Check, str]:  # type: ignore[override]
        return self.check, str(self)


class Moments(NamedTuple):
    """Cells of a column at a client: how many are filled, mean, standard deviation, minimum and maximum."""

    filled: float
    mean: float
    deviation: float
    low: float
    high: float


Numbers = Mapping[str, Mapping[str, Moments]]
"""By column and client."""
Levels = Mapping[str, Mapping[str, Sequence[str]]]
"""By column and client, the categories that the client reports."""
Counts = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By column and client, numbers of rows by category; "" stands for all others."""


def column_moments(
    names: Sequence[str], means: Tensor, replies: Mapping[str, Mapping[str, Any]], squares: Mapping[str, Tensor]
) -> dict[str, dict[str, Moments]]:
    """Return the moments of columns from what clients report, by column and client.

    `means`, float64 ``(columns,)``, are those of all clients. `replies` have by client's name the ``names`` of its
    columns, and float64 ``filled``, ``sum``, ``min`` and ``max`` of each; `squares`, float64 ``(columns,)``, are sums
    of squared distances from `means`.
    """
    found: dict[str, dict[str, Moments]] = {name: {} for name in names}
    center = dict(zip(names, means.tolist(), strict=True))
    for client, reply in replies.items():
        around = dict(zip(names, squares[client].tolist(), strict=True))
        sent = (reply[key].tolist() for key in ("filled", "sum", "min", "max"))
        for name, filled, total, low, high in zip(reply["names"], *sent, strict=True):
            if filled and name in found:
                mean = total / filled
                away = mean - center[name]
                varies = low < high and math.isfinite(away)  # of one value only rounding is left
                deviation = math.sqrt(max(0.0, around[name] / filled - away * away)) if varies else 0.0
                found[name][client] = Moments(filled, mean, deviation, low, high)
    return found


def check_columns(kinds: Mapping[str, Kind], numbers: Numbers, levels: Levels, counts: Counts) -> list[Finding]:
    """Return findings on columns that clients have agreed on.

    `kinds` are by column. With secure sums there are no `numbers` and `counts`.
    """
    return [
        *_spellings(levels),
        *_codes({name: own for name, own in numbers.items() if kinds[name] == "number"}),
        *_disjoint(levels, counts),
        *_units({name: own for name, own in numbers.items() if kinds[name] in MEASURED}, kinds),
        *_constants({name: own for name, own in numbers.items() if kinds[name] != "ordinal"}, counts),
        *_identifiers([name for name, kind in kinds.items() if kind == "number"]),
    ]


def check_cells(tables: Mapping[str, Table], labels: Mapping[str, Sequence[str]] | None = None) -> list[Finding]:
    """Return findings on the cells of clients' tables, which are given by name, and on their rows' labels, if any."""
    return [*_few_rows(tables), *_same_rows(tables), *_missing_codes(tables), *_leaks(tables, labels or {})]


def check_labels(by_client: Mapping[str, Sequence[str]]) -> tuple[list[Finding], list[Finding]]:
    """Return findings on labels, by client: those on spellings, and those on clients that share none with others.

    Where no two clients share a label, each may have classes of its own, and nothing is said.
    """
    spelt = [
        Finding(
            "labels",
            f"Labels that differ in spelling alone are different classes: {listed}; spell them alike if they are the "
            "same.",
        )
        for listed in _spelt(by_client)
    ]
    parts = _parts({client: set(own) for client, own in by_client.items() if own})
    if len(parts) < 2 or all(len(part) == 1 for part in parts):
        return spelt, []
    said = " and ".join(f"{clients_in_words(part)} ('{by_client[part[0]][0]}', ...)" for part in parts[1:])
    share = "shares" if len(parts) == 2 and len(parts[1]) == 1 else "share"
    sentence = (
        f"{said[0].upper()}{said[1:]} {share} no label with the other clients, which alone can make clusters of "
        "clients; write labels alike if they mean the same."
    )
    return spelt, [Finding("labels", sentence)]


def check_names(names: Mapping[int, Collection[str]], drops: bool) -> list[Finding]:
    """Return a finding on columns whose names differ in spelling alone and are not taken for one; by each client's."""
    groups = spelt_alike(dict.fromkeys(name for own in names.values() for name in own))
    alike = [
        " and ".join(f"'{name}'" for name in own)
        for own in groups
        if not all({*own} <= {*has} for has in names.values())
    ]
    if not alike:
        return []
    gone = ", so those that a client lacks are left out" if drops else ""
    sentence = (
        f"Columns {listing(alike, _NAMED)} differ in spelling alone and count as different{gone}; give them one name "
        "if they are the same."
    )
    return [Finding("spelling", sentence)]


def check_arrays(ends: Mapping[str, tuple[Tensor, Tensor]]) -> list[Finding]:
    """Return a finding if some clients' values reach many times as far from 0 as those of all others.

    That is so in most columns, as a few values may be outliers. `ends` are by client's name the minima and maxima of
    its columns or channels, float64 ``(columns,)``.
    """
    by_column = {name: torch.maximum(-low, high) for name, (low, high) in ends.items()}
    sizes = dict(zip(by_column, _typical(torch.stack([*by_column.values()])), strict=True))
    order = sorted((name for name in sizes if sizes[name] > 0), key=lambda name: sizes[name])
    gaps = [(sizes[large] / sizes[small], at) for at, (small, large) in enumerate(pairwise(order), 1)]
    if not gaps or max(gaps)[0] <= _LARGER:
        return []
    _, at = max(gaps)
    small, large = ([name for name in sizes if name in part] for part in (order[:at], order[at:]))
    few, others = (large, small) if len(large) <= len(small) else (small, large)
    most, rest = (max(sizes[name] for name in own) for own in (few, others))
    sentence = (
        f"The largest values at {clients_in_words(few)} are about {most:.3g}, and those of "
        f"{'the other client' if len(others) == 1 else 'all others'} about {rest:.3g}; give all one unit, as pixels "
        "from 0 to 255 or from 0 to 1."
    )
    return [Finding("unit", sentence)]


def check_new_arrays(x: Tensor, reach: Tensor, where: str) -> list[Finding]:
    """Return a finding if new samples are in most columns many times as large as those of fit, or as small.

    `x` is float32 ``(n, columns)`` or ``(n, channels, height, width)``, not empty, and `reach` float64 ``(2, columns)``
    are the ends of all clients' values; `where` names the samples.
    """
    if x.shape[1] != reach.shape[1]:
        return []
    size, known = _typical(torch.stack([x.abs().amax((0, *range(2, x.ndim))).double(), reach.abs().amax(0)]))
    if not size or not known or (size <= _LARGER * known and (size * _LARGER >= known or len(x) < MIN_MEMBERS)):
        return []
    sentence = (
        f"The largest values of {mid_sentence(where)} are about {size:.3g} where those of fit were about {known:.3g}; "
        "are they in another unit?"
    )
    return [Finding("unit", sentence)]


def check_new_rows(table: Table, encoding: TableEncoding, where: str, reach: Tensor | None = None) -> list[Finding]:
    """Return findings on categories that the schema does not name, and on numbers far from those of the clients.

    The table has the schema's columns; `where` names it, within a sentence. `reach`, float64 ``(2, columns)``, are the
    ends of all clients' values, where these are known: on rows within them, as those of training are, there is none.
    Nor is there one on categories that are as rare as those which were pooled as *other*.
    """
    columns = encoding.schema.columns
    table = with_names(table, encoding.schema.wanted)
    values = aligned(table, columns, where, encoding.imputes)
    starts = {name: start for name, start, _ in encoding.blocks}
    own = {column.name: (column, table.of(column.name)) for column in table.columns}
    findings = []
    for at, column in enumerate(columns):
        here, start = f"olumn '{column.name}' of {mid_sentence(where)}", starts[column.name]
        if column.kind == "category" and column.name in own:
            rare = float(encoding.mean[start + len(column.categories)]) if bool(encoding.other[at]) else None
            findings += _unknown_levels(here, *own[column.name], column, rare)
        elif column.kind in MEASURED and encoding.mode in ("standard", "common") and encoding.scale[start] != 1:
            weight = 2**0.5 if bool(encoding.indicated[at]) else 1.0  # an indicator of empty cells shares it
            mean, scale = float(encoding.mean[start]), float(encoding.scale[start]) / weight
            ends = None if reach is None else (float(reach[0, at]), float(reach[1, at]))
            cells = values[:, at][~values[:, at].isnan()]
            findings += _unlike_numbers(here, cells, mean, scale, ends, column.kind) if len(cells) else []
    return findings


def _unknown_levels(here: str, own: Column, values: Tensor, column: SchemaColumn, rare: float | None) -> list[Finding]:
    """Find categories that the schema does not name; `rare` is the part of those that it pools as *other*, if it does.

    Then they must be in more rows than that part lets expect, by four standard deviations.
    """
    if not own.is_coded:
        return []
    counts = values[~values.isnan()].long().bincount(minlength=len(own.categories)).tolist()
    unknown = {
        name: count for name, count in zip(own.categories, counts, strict=True)
        if count and as_known(name, {*column.categories}) is None
    }  # fmt: skip
    rows, filled = sum(unknown.values()), sum(counts)
    usual = filled * (rare or 0.0)
    if not unknown or (rare is not None and rows <= usual + 4 * math.sqrt(usual + 1)):
        return []
    alike = {name: spelt_as(name, column.categories) for name in unknown}
    listed = listing([f"'{name}'" + (f" (is it '{like}'?)" if like else "") for name, like in alike.items()], 3)
    one = len(unknown) == 1
    said = f"no client has named {'such a category' if one else 'such categories'}"
    if rare is not None:
        said = f"{'it counts' if one else 'they count'} as '{OTHER}', as rare categories did in training"
    return [Finding("disjoint", f"C{here} holds {listed} in {rows} of {len(values)} rows; {said}.")]


def _unlike_numbers(
    here: str, cells: Tensor, mean: float, scale: float, ends: tuple[float, float] | None, kind: Kind
) -> list[Finding]:
    """Find new numbers that are all far from the clients', or many times as large, or some that are very far."""
    low, high = ends or (-math.inf, math.inf)
    far, beyond = (cells - mean).abs() / scale, (cells < low) | (cells > high) | torch.tensor(ends is None)
    every = f"All values of c{here} are"
    if len(cells) >= 3 and bool(((far > _FAR) & beyond).all()):
        return [Finding("unit", f"{every} far from those of the clients; are they in another unit?")]
    least, most, own = float(cells.min()), float(cells.max()), float(cells.mean())
    if (
        kind == "number"
        and len(cells) >= MIN_MEMBERS
        and least > 0
        and max(low, 0 if ends is None else low) >= 0
        and mean > 0
    ):
        times = max(mean / own, own / mean)
        surely = abs(mean - own) / scale * math.sqrt(len(cells)) > _FAR + 1
        one_side = most < mean or least > mean
        if one_side and ((times >= _TIMES and surely) or (times >= _SAID and ends is not None and bool(beyond.all()))):
            how, size = ("below", "smaller") if own < mean else ("above", "as large")
            digits = 0 if times >= _TIMES else 1
            sentence = (
                f"{every} {how} the mean of the clients, about {times:,.{digits}f} times {size} in the mean; are they "
                "in another unit?"
            )
            return [Finding("unit", sentence)]
    reach = high - low
    very = (far > _VERY_FAR) & ((cells < low - reach) | (cells > high + reach))
    if ends is None or not bool(very.any()):
        return []
    value = as_written(float(cells[very][far[very].argmax()]), kind)
    count = int(very.sum())
    sentence = (
        f"C{here} holds {value}, far from the clients' values, in {count} row{'s' * (count > 1)}; is it in another "
        "unit, or does it stand for a missing value?"
    )
    return [Finding("missing code", sentence)]


def _typical(sizes: Tensor) -> list[float]:
    """Return the median over columns of sizes ``(sources, columns)``, of those in which any is above 0."""
    used = sizes[:, (sizes > 0).any(0)]
    return [float(own.median()) if len(own) else 0.0 for own in used]


def _units(numbers: Numbers, kinds: Mapping[str, Kind]) -> list[Finding]:
    """Find columns of which some clients' values are far from the others', or many times as large.

    The fewer clients are named, and of equally many those with larger values.
    """
    alike: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    for name, by_client in numbers.items():
        known = {client: own for client, own in by_client.items() if own.filled >= MIN_MEMBERS}
        if len(known) < 2 or not (divided := _divided(known, kinds[name] == "number")):
            continue
        small, large, ratio = divided
        above = len(large) <= len(small)
        few, rest = (large, small) if above else (small, large)
        others = "the others" if len(rest) > 1 else clients_in_words(rest)
        if ratio >= _SAID:
            how = f"times {'as large as' if above else 'smaller than'} at {others}, in the mean"
        else:
            how = f"far {'above' if above else 'below'} what it is at {others}"
        where = clients_in_words([client for client in by_client if client in few])
        alike.setdefault((where, how, "" if kinds[name] == "date" else "unit"), []).append((name, ratio))
    return [_unit_sentence(*key, own) for key, own in alike.items()]


def _divided(known: Mapping[str, Moments], has_unit: bool) -> tuple[list[str], list[str], float] | None:
    """Return clients with smaller and with larger values, and the ratio of their means, if these differ surely.

    Clients are divided where the gap between their means is widest, or the ratio, which is that of deviations where
    some values are negative; then a few values far from all others are no reason. The ratio is 0 where there is none.
    """
    positive = has_unit and all(own.low >= 0 < own.mean for own in known.values())
    order = sorted(known, key=lambda client: known[client].mean)
    gaps = [known[after].mean - known[before].mean for before, after in pairwise(order)]
    cut = 1 + gaps.index(max(gaps))
    if max(gaps) > _FAR * _pooled([*known.values()]).deviation:
        low, high = (_pooled([known[client] for client in part]) for part in (order[:cut], order[cut:]))
        if max(gaps) > _EXACT * abs(high.mean):
            return order[:cut], order[cut:], high.mean / low.mean if positive else 0.0
    sizes = {client: own.mean if positive else own.deviation for client, own in known.items()}
    if not has_unit or not all(own.deviation > 0 for own in known.values()):
        return None
    order = sorted(known, key=sizes.__getitem__)
    ratios = [sizes[after] / sizes[before] for before, after in pairwise(order)]
    if max(ratios) < _TIMES:
        return None
    cut = 1 + ratios.index(max(ratios))
    low, high = (_pooled([known[client] for client in part]) for part in (order[:cut], order[cut:]))
    large = [known[client] for client in order[cut:]]
    if positive:
        ratio = high.mean / low.mean
        same = 1 / _AGREE <= high.deviation / low.deviation / ratio <= _AGREE
        sure = same and all(own.mean - low.mean > _ERRORS * own.deviation / math.sqrt(own.filled) for own in large)
    else:
        ratio = high.deviation / low.deviation
        sure = all(max(own.high - own.mean, own.mean - own.low) <= _ERRORS * own.deviation for own in large)
        sure = sure and min(own.filled for own in known.values()) >= _FEWEST
    return (order[:cut], order[cut:], ratio) if sure else None


def _pooled(values: Sequence[Moments]) -> Moments:
    """Return the moments of several clients together; the deviation is that within clients."""
    filled = sum(own.filled for own in values)
    mean = sum(own.filled * own.mean for own in values) / filled
    deviation = math.sqrt(sum(own.filled * own.deviation**2 for own in values) / filled)
    return Moments(filled, mean, deviation, min(own.low for own in values), max(own.high for own in values))


def _unit_sentence(where: str, how: str, unit: str, found: Sequence[tuple[str, float]]) -> Finding:
    names, ratios = [name for name, _ in found], [ratio for _, ratio in found]
    some, digits = len(names) > 1, 1 if min(ratios) < _TIMES else 0
    least, most = (f"{end(ratios):,.{digits}f}" for end in (min, max))
    how = how.replace("it is", "they are") if some else how
    times = f"about {least if least == most else f'{least} to {most}'} {how}" if how.startswith("times") else how
    give = f"give {'them' if some else 'it'} one unit, or " if unit else ""
    features = "they are no features" if some else "it is no feature"
    verb = "are" if some else "is"
    sentence = (
        f"Column{'s' * some} {_quoted(names)} at {where} {verb} {times}; {give}{_drop(names)} if {features} of samples."
    )
    return Finding("unit", sentence)


def _constants(numbers: Numbers, counts: Counts) -> list[Finding]:
    """Find columns that have one value at a client, of fewer than half, and surely others at the rest.

    How many of the others' numbers are not that value is at least their mean square distance from it by the largest.
    """
    found: dict[str, list[str]] = {}
    for name, by_client in numbers.items():
        same = [client for client, own in by_client.items() if own.low == own.high]
        others = [own for client, own in by_client.items() if client not in same]
        for client in same:
            value, rows = by_client[client].low, by_client[client].filled
            reach = max((max(abs(own.high - value), abs(own.low - value)) for own in others), default=0.0)
            if reach > 0 and 2 * len(same) < len(by_client):
                square = sum(
                    own.filled * ((own.deviation / reach) ** 2 + ((own.mean - value) / reach) ** 2) for own in others
                )
                _add_if_sure(found, name, client, rows, square / sum(own.filled for own in others))
    for name, rows_of in counts.items():
        alone = {client: next(iter(own)) for client, own in _held(rows_of).items() if len(own) == 1}
        for client, level in alone.items():
            others_rows = [own for other, own in rows_of.items() if other not in alone]
            filled = sum(sum(own.values()) for own in others_rows)
            if filled and 2 * len(alone) < len(rows_of):
                rows = sum(rows_of[client].values())
                _add_if_sure(found, name, client, rows, 1 - sum(own.get(level, 0.0) for own in others_rows) / filled)
    return [
        Finding(
            "constant",
            f"{_columns(names, 'have', 'has')} one value at {clients_in_words([client])}, and others elsewhere; "
            f"{_drop(names)} if {'they were' if len(names) > 1 else 'it was'} not recorded there.",
        )
        for client, names in found.items()
    ]


def _held(rows_of: Mapping[str, Mapping[str, float]]) -> dict[str, list[str]]:
    return {client: [level for level, rows in own.items() if rows] for client, own in rows_of.items()}


def _add_if_sure(found: dict[str, list[str]], name: str, client: str, rows: float, part: float) -> None:
    """Add a column to those of a client if so many rows would by chance all be in the rest of a `part` of others'."""
    if rows >= _FEWEST and (1 - min(part, 1.0)) ** rows <= _CHANCE:
        found.setdefault(client, []).append(name)


def _codes(numbers: Numbers) -> list[Finding]:
    """Find columns of two whole numbers at every client, each in five rows, that are not the same two.

    All values are minimum or maximum if, and only if, the variance is as large as these allow.
    """
    findings = []
    for name, by_client in numbers.items():
        pairs: dict[tuple[float, float], list[str]] = {}
        for client, (filled, mean, deviation, low, high) in by_client.items():
            rarer = filled * min(mean - low, high - mean) / ((high - low) or 1.0)
            exact = abs((high - mean) * (mean - low) - deviation**2) <= _EXACT * (high - low) ** 2
            if not (low.is_integer() and high.is_integer() and exact and round(rarer) >= MIN_MEMBERS):
                break
            pairs.setdefault((low, high), []).append(client)
        else:
            if len(pairs) > 1 and len({end for pair in pairs for end in pair}) < 2 * len(by_client):
                said = ", ".join(f"{a:.15g} and {b:.15g} at {clients_in_words(own)}" for (a, b), own in pairs.items())
                sentence = f"Column '{name}' holds {said}; write these codes alike, or {_drop([name])}."
                findings.append(Finding("spelling", sentence))
    return findings


def _spellings(levels: Levels) -> list[Finding]:
    """Find categories whose names differ in spelling alone, and that no client has both of."""
    alike: dict[str, list[str]] = {}
    for column, by_client in levels.items():
        if listed := "; ".join(_spelt(by_client)):
            alike.setdefault(listed, []).append(column)
    return [
        Finding(
            "spelling",
            f"Categories of {'columns' if len(names) > 1 else 'column'} {_quoted(names)} that differ in spelling alone "
            f"count as different: {listed}; spell them alike if they are the same, or {_drop(names)}.",
        )
        for listed, names in alike.items()
    ]


def _spelt(by_client: Mapping[str, Sequence[str]]) -> list[str]:
    """Return groups of names that differ in spelling alone, each name with a client that has it; none of one client."""
    groups = spelt_alike(dict.fromkeys(name for own in by_client.values() for name in own))
    where = {name: [client for client, own in by_client.items() if name in own] for group in groups for name in group}
    return [
        ", ".join(f"'{name}' ({clients_in_words(where[name][:1])})" for name in group)
        for group in groups
        if not any(len({*own}.intersection(group)) > 1 for own in by_client.values())
    ]


def _disjoint(levels: Levels, counts: Counts) -> list[Finding]:
    """Find columns of which clients have no frequent category in common, and hardly a row in the others' by chance."""
    apart: dict[str, list[str]] = {}
    for name, by_client in levels.items():
        parts = _parts({client: set(own) for client, own in by_client.items() if own})
        found = [part for part in parts[1:] if _are_apart(part, by_client, counts.get(name, {}))]
        if found and not _spelt(by_client):
            mutual = len(parts) > 2 and all(len(part) == 1 for part in parts)
            at = clients_in_words([client for part in found for client in part])
            apart.setdefault("in common at any two clients" if mutual else f"at {at} that others have", []).append(name)
    return [
        Finding(
            "disjoint",
            f"{_columns(names, 'have', 'has')} no frequent value {where}; spell values alike if they are the same, or "
            f"{_drop(names)}.",
        )
        for where, names in apart.items()
    ]


def _are_apart(
    part: Collection[str], named: Mapping[str, Sequence[str]], rows: Mapping[str, Mapping[str, float]]
) -> bool:
    """Return whether no client of a part has, but for chance, a tenth of the others' rows in what they name."""
    if not rows:
        return True
    others = {name for client, own in named.items() if client not in part for name in own}

    def inside(clients: Iterable[str]) -> tuple[float, float]:
        own = [rows[client] for client in clients]
        filled = sum(sum(one.values()) for one in own)
        return sum(one.get(name, 0.0) for one in own for name in others) / max(filled, 1.0), filled

    usual, _ = inside(client for client in rows if client not in part)
    return all(
        share <= _REPEATED * usual and (1 - usual) ** filled <= _CHANCE
        for share, filled in (inside([one]) for one in part)
    )


def _parts(known: Mapping[str, set[str]]) -> list[list[str]]:
    """Return clients in parts that share values, the part of most clients first."""
    parts: list[tuple[list[str], set[str]]] = []
    for client, own in known.items():
        met = [part for part in parts if part[1] & own]
        joined = [*(name for part in met for name in part[0]), client], own.union(*(part[1] for part in met))
        parts = [*(part for part in parts if part not in met), joined]
    return sorted((part for part, _ in parts), key=lambda part: -len(part))


def _identifiers(names: Iterable[str]) -> list[Finding]:
    """Find numbers that are called like the id of a person or thing, but come again and again."""
    called = [name for name in names if is_called_recurring(name)]
    if not called:
        return []
    are = "are called like ids and count" if len(called) > 1 else "is called like an id and counts"
    which = "Columns" if len(called) > 1 else "Column"
    sentence = f"{which} {_quoted(called)} {are} as numbers; {_drop(called)}, or {setting('categorical', called)}."
    return [Finding("identifier", sentence)]


def _few_rows(tables: Mapping[str, Table]) -> list[Finding]:
    """Find clients with fewer rows than they report anything of, beside others with more."""
    few = [client for client, table in tables.items() if len(table) < MIN_MEMBERS]
    if not few or len(few) == len(tables):
        return []
    some = len(few) > 1
    sentence = (
        f"{listing(few, _NAMED)} {'have' if some else 'has'} fewer than {MIN_MEMBERS} rows, of which nothing is "
        f"reported; {_without(few, 'them' if some else 'it')}."
    )
    return [Finding("few rows", sentence)]


def _same_rows(tables: Mapping[str, Table]) -> list[Finding]:
    """Find clients that have more than half of their rows in common with another, and hardly repeat their own."""
    findings, owner = [], dict[int, str]()
    for client, table in tables.items():
        if len(table) < _FEWEST or len(table.columns) < 3:
            continue
        rows = list(dict.fromkeys(_hashes(table)))  # in their order, whatever the hashes are
        if len(rows) < (1 - _REPEATED) * len(table):
            continue
        shared = Counter(owner[row] for row in rows if row in owner)
        for other, count in shared.most_common(1):
            if count > _SHARED * len(rows):
                sentence = (
                    f"{client} holds {count:,} of its {len(rows):,} different rows at {other}, too; "
                    f"{_without([client], 'it')} if it is a copy."
                )
                findings.append(Finding("same rows", sentence))
        owner |= dict.fromkeys(rows, client)
    return findings


def _hashes(table: Table) -> list[int]:
    """Return a hash of each row by the values of its columns, in order of their names; of a category by its text."""
    order = sorted(range(len(table.columns)), key=lambda at: table.columns[at].name)
    cells = table.values.numpy()[:, order] + 0.0  # there is no -0
    for at, column in enumerate(table.columns[at] for at in order):
        if column.is_coded:
            texts = np.array([*(crc32(category.encode()) for category in column.categories), np.nan])
            cells[:, at] = texts[np.nan_to_num(cells[:, at], nan=-1).astype(int)]
    cells[np.isnan(cells)] = np.nan  # one of the many kinds of NaN
    return [hash(row.tobytes()) for row in cells]


def _leaks(tables: Mapping[str, Table], labels: Mapping[str, Sequence[str]]) -> list[Finding]:
    """Find columns of which each value stands for one label, and each label for one value, at all clients."""
    pairs: dict[str, set[tuple[Any, str]]] = {}
    missing: dict[str, int] = {}
    labels = {client: own for client, own in labels.items() if client in tables}
    for client, own in labels.items():
        table = tables[client]
        for column, cells in zip(table.columns, table.values.numpy().T, strict=True):
            filled = ~np.isnan(cells)
            missing[column.name] = missing.get(column.name, 0) + int((~filled).sum())
            values = (
                np.unique(cells[filled]).tolist() if column.kind != "category" else [*range(len(column.categories))]
            )
            if len(values) > MIN_MEMBERS * _DISTINCT:
                pairs[column.name] = set()
                missing[column.name] = len(table) * len(tables)
                continue
            named = {at: column.categories[int(at)] if column.is_coded else at for at in values}
            met = {
                (named[cell], str(label))
                for cell, label in zip(cells[filled].tolist(), np.asarray(own)[filled], strict=True)
            }
            pairs.setdefault(column.name, set()).update(met)
    rows = sum(map(len, labels.values()))
    found = [
        name
        for name, own in pairs.items()
        if rows >= _FEWEST and 10 * missing[name] <= rows
        and 1 < len(own) == len({value for value, _ in own}) == len({label for _, label in own})
    ]  # fmt: skip
    if not found:
        return []
    says = _columns(found, "say", "says")
    return [
        Finding("leak", f"{says} what the labels say, value by value; {_drop(found)}, or clusters show the labels.")
    ]


def _missing_codes(tables: Mapping[str, Table]) -> list[Finding]:
    """Find values that seem to stand for empty cells, such as 9999; one in four columns or more is one finding.

    They are at an end of a column of all clients, in five rows or more, and three times as far from all others as nine
    tenths of these are from each other. Or 0, where all else is far from it.
    """
    cells: dict[tuple[str, Kind], dict[str, Values]] = {}
    for client, table in tables.items():
        for column, own in zip(table.columns, table.values.numpy().T, strict=True):
            if column.kind in ("number", "date"):
                cells.setdefault((column.name, column.kind), {})[client] = own[~np.isnan(own)]
    found: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
    for (name, kind), by_client in cells.items():
        for value, place in _codes_in(np.concatenate([*by_client.values()]), kind):
            rows = {client: count for client, own in by_client.items() if (count := int((own == value).sum()))}
            found.setdefault((as_written(value, kind), place), {})[name] = rows
    findings = []
    for (written, place), of_columns in found.items():
        for names in [[*of_columns]] if len(of_columns) > 3 else [[name] for name in of_columns]:
            most: dict[str, int] = {}
            for client, count in (pair for name in names for pair in of_columns[name].items()):
                most[client] = max(count, most.get(client, 0))
            where = listing([f"{count} row{'s' * (count != 1)} of {client}" for client, count in most.items()], 5)
            most_of = "up to " if len(names) > 1 else ""
            values = {name: [_plain(written)] for name in names}
            sentence = (
                f"{_columns(names, 'hold', 'holds')} {written}, {place}, in {most_of}{where}; if it is no true value "
                f"but stands for a missing one, {setting('na_values', values)}."
            )
            findings.append(Finding("missing code", sentence))
    return findings


def _codes_in(cells: Values, kind: Kind) -> Iterator[tuple[float, str]]:
    """Yield values at the ends of a column that seem to stand for empty cells, and where they are."""
    values, counts = np.unique(cells, return_counts=True)
    if len(values) <= _DISTINCT:
        return
    for at, place in ((0, "far below all other values"), (-1, "far above all other values")):
        others = cells[cells != values[at]]
        if MIN_MEMBERS <= counts[at] <= len(others):
            measures = others[others != values[-1 - at]]  # a code may be at the other end, too
            least, most = np.quantile(measures, (0.05, 0.95))
            gap = abs(values[at] - values[1 if at == 0 else -2])
            if gap > _GAPS * (most - least) or (
                kind == "number" and at == values[0] == 0 and _never_near_zero(values, others, len(cells))
            ):
                yield float(values[at]), place


def _never_near_zero(values: Values, others: Values, rows: int) -> bool:
    """Return whether 0, the least of the different `values`, is far from all `others` and in few of the rows.

    It is far by the others' median and by their steps, so not in counts, whose least value is a step above 0.
    """
    step = np.median(np.diff(values[1 : 1 + max(_DISTINCT, len(values) // 4)]))
    far = values[1] >= max(_ABOVE_ZERO * np.median(others), _STEPS * step)
    return bool(far) and rows - len(others) <= _ZEROS * rows


def _plain(written: str) -> str | float:
    """Return a value as options take it: a number, or the text of a date."""
    try:
        number = float(written)
    except ValueError:
        return written
    return int(number) if number.is_integer() else number


def _columns(names: Sequence[str], plural: str, singular: str) -> str:
    return f"Columns {_quoted(names)} {plural}" if len(names) > 1 else f"Column {_quoted(names)} {singular}"


def _quoted(names: Sequence[str]) -> str:
    return listing([f"'{name}'" for name in names], _NAMED)


def _drop(names: Sequence[str]) -> str:
    return setting("drop", [*names])


def _without(clients: Sequence[str], it: str) -> str:
    """Return how to leave clients out; those without a name go by their number."""
    if not has_option("federation.forgotten"):
        return f"leave {it} out"
    numbers = [client.removeprefix("Client ") for client in clients]
    forgotten = setting("federation.forgotten", [int(one) if one.isdecimal() else one for one in numbers])
    return f"{forgotten} to leave {it} out"
