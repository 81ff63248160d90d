"""Columns of a table described by cluster: effect sizes, texts of table cells, and phrases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedkin.core.table import Kind
from fedkin.data.encoding import OTHER
from fedkin.data.profile import ClusterProfile
from fedkin.data.schema import SchemaColumn
from fedkin.data.statistics import count_lengths
from fedkin.experiment.report_content.column_moments import Moments
from fedkin.experiment.report_content.column_writer import ColumnWriter, true_level

NOTHING = "–"
"""What stands where nothing is known."""
_MIN_SHIFT = 0.5
"""Standard deviations that a cluster's mean lies off the mean of all others, for its sentence to name the column."""
_MIN_DIFFERENCE = 0.15
"""The same for the share of a category or of a truth value."""
_RARE = 0.25
"""Share of a category below which it is rare."""
_LIMITED = ", limited"
"""What stands beside means that are of values within limits, where a few values far beyond hide how clusters differ."""


@dataclass(frozen=True)
class DescribedColumn:
    """Description of one column of a table over all clusters.

    `effect` is the effect size of the differences between clusters, in [0, 1]: epsilon squared (the share of the
    variance that lies between them, corrected for chance), or the bias-corrected square of Cramér's V. The others are
    by cluster. `cells` have the mean with the standard deviation, or the most frequent category and its share; `values`
    the mean, or the most frequent category, ``None`` if unknown. On a logarithmic scale the mean is the geometric one,
    and beside it stands the range of a standard deviation of the logarithms to either side. `phrases` have how far it
    differs from the others, 0 if little, and the phrase that says so; `shifts` how many standard deviations its mean
    lies above that of all, or how the share of the category in the cell differs. `typical` is the value of a typical
    sample: the mean over the rows in the middle of the cluster, or their most frequent category or truth value.
    """

    name: str
    effect: float
    cells: list[str]
    values: list[float | str | None]
    phrases: list[tuple[float, str]]
    shifts: list[float]
    typical: list[str] = field(default_factory=list)
    kind: Kind = "number"

    def typical_values(self) -> list[float | str | bool | None]:
        """Return `typical` as values for a DataFrame: numbers, truth values or texts; ``None`` if unknown."""
        return [None if text == NOTHING else _value_of(text, self.kind) for text in self.typical]


def described(profile: ClusterProfile) -> list[DescribedColumn]:
    """Describe the columns of a profile, in descending order of effect size."""
    lengths, both = count_lengths(profile.columns), (Moments(profile), Moments(profile.within_limits))
    columns = [_categories(profile, at) if lengths[at] else _numbers(profile, *both, at) for at in range(len(lengths))]
    return sorted(columns, key=lambda column: -column.effect)


def contrasted(pair: ClusterProfile) -> list[tuple[float, str]]:
    """Return by column how the first of two clusters differs from the second: an effect size and a phrase.

    The phrase is empty where they differ little; columns that distinguish them most come first.
    """
    true, moments, found = Moments(pair), Moments(pair.within_limits), []
    for at, (column, length) in enumerate(zip(pair.columns, count_lengths(pair.columns), strict=True)):
        if length:
            effect, phrase = _cramer(pair.counts_of(at).double()), _category_contrast(pair, at)
        else:
            clusters = sum(count > 0 for count in moments.n[at])
            effect = _adjusted(moments.between[at], moments.whole[at], moments.total[at], clusters)
            phrase = _number_contrast(column, true, moments, at)
        found.append((effect, phrase))
    return sorted(found, key=lambda each: -each[0])


def _number_contrast(column: SchemaColumn, true: Moments, limited: Moments, at: int) -> str:
    (own, other), spread = limited.means[at], limited.spread[at]
    is_boolean = column.kind == "boolean"
    if not abs(own - other) >= (_MIN_DIFFERENCE if is_boolean else _MIN_SHIFT * spread) or own == other:  # or unknown
        return ""
    write, above = ColumnWriter(column, spread, limited.mean[at]), own > other
    written, usual = (write(*one) for one in zip(true.means[at], true.scatter[at], strict=True))
    if (true.means[at][0] > true.means[at][1]) is above and written != usual:
        sides = write.sides(written, usual)
    else:
        written, usual = (write(*one) for one in zip((own, other), limited.scatter[at], strict=True))
        sides = write.sides(written, usual, _LIMITED)
    if is_boolean:
        return f"{column.name} {'more' if above else 'less'} often {true_level(column.categories)} {sides}"
    more = ("later" if above else "earlier") if column.kind == "date" else ("higher" if above else "lower")
    return f"{more} {column.name} {sides}"


def _category_contrast(pair: ClusterProfile, at: int) -> str:
    counts = pair.counts_of(at).double()
    if not counts.any(1).all():
        return ""
    own, other = counts / counts.sum(1, keepdim=True)
    most = int((own - other).argmax())
    if own[most] - other[most] < _MIN_DIFFERENCE:
        return ""
    column = pair.columns[at]
    return f"{column.name} more often {[*column.categories, OTHER][most]} ({own[most]:.0%} against {other[most]:.0%})"


def _numbers(profile: ClusterProfile, moments: Moments, limited: Moments, at: int) -> DescribedColumn:
    """Describe a column by its true moments; which clusters differ in it is read from those of limited values.

    If a few extreme values reverse or hide the difference of true means, the phrase has limited means, and says so.
    """
    column, n, means = profile.columns[at], moments.n[at], moments.means[at]
    total, mean, spread = limited.total[at], limited.mean[at], limited.spread[at]
    effect = _adjusted(limited.between[at], limited.whole[at], total, sum(count > 0 for count in n))
    write = ColumnWriter(column, spread, mean)
    cells, phrases, shifts = [], [], [0.0] * len(means)
    for cluster, (true, own) in enumerate(zip(means, limited.means[at], strict=True)):
        if math.isnan(own):
            cells.append(NOTHING)
            phrases.append((0.0, ""))
            continue
        scatter = moments.scatter[at][cluster]
        cells.append(write(true, scatter) + write.after(true, scatter))
        shift = (own - mean) / spread if spread > 0 else 0.0
        shifts[cluster] = shift
        away = abs(own - mean) / max(1 - n[cluster] / total, 1e-9)  # from the mean of all others
        is_far = away >= _MIN_DIFFERENCE if column.kind == "boolean" else away >= _MIN_SHIFT * spread > 0
        written, usual, how = write(true, scatter), write(moments.mean[at]), ""
        if (true > moments.mean[at]) is not (own > mean) or written == usual:
            within = write(own, limited.scatter[at][cluster]), write(mean)
            written, usual, how = (*within, _LIMITED if (written, usual) != within else "")
        stands = _one_against_rest(n[cluster], total, shift) if is_far and written != usual else 0.0
        phrases.append((stands, _phrase(column, shift > 0, write.sides(written, usual, how), own, mean)))
    values: list[float | str | None] = [None if math.isnan(own) else own for own in means]
    if column.kind == "date":
        values = [None if own is None else write(float(own)) for own in values]
    typical = _typical_numbers(profile, moments, at, write)
    return DescribedColumn(column.name, effect, cells, values, phrases, shifts, typical, column.kind)


def _typical_numbers(profile: ClusterProfile, moments: Moments, at: int, write: ColumnWriter) -> list[str]:
    """Return the value of each cluster's typical sample; for booleans and ordinal levels the nearest level."""
    if not profile.has_typical:
        return []
    column, texts = profile.columns[at], []
    of_each = zip(moments.typical_filled[at], moments.typical_sum[at], moments.scatter[at], strict=True)
    for filled, total, scatter in of_each:
        mean = total / max(filled, 1)
        levels = column.categories or (("false", "true") if column.kind == "boolean" else ())
        level = levels[min(max(round(mean), 0), len(levels) - 1)] if levels else write(mean, scatter)
        texts.append(level if filled else NOTHING)
    return texts


def _value_of(text: str, kind: Kind) -> float | str | bool:
    """Return the value that was written as a text: of a number with the digits that it was rounded to."""
    if kind == "number":
        return float(text.replace(",", ""))
    return text == "true" if kind == "boolean" and text in ("false", "true") else text


def _phrase(column: SchemaColumn, above: bool, sides: str, own: float, mean: float) -> str:
    if column.kind == "boolean":
        return f"{column.name} {_how_often(own, mean)} {true_level(column.categories)} {sides}"
    if column.kind == "date":
        return f"{'late' if above else 'early'} {column.name} {sides}"
    return f"{'high' if above else 'low'} {column.name} {sides}"


def _categories(profile: ClusterProfile, at: int) -> DescribedColumn:
    column = profile.columns[at]
    counts = profile.counts_of(at).double()
    n, total = counts.sum(1), float(counts.sum())
    overall = counts.sum(0) / max(total, 1.0)
    names = [*column.categories, OTHER]
    cells: list[str] = []
    values: list[float | str | None] = []
    phrases: list[tuple[float, str]] = []
    shifts = [0.0] * len(counts)
    for cluster, (own, count) in enumerate(zip(counts, n.tolist(), strict=True)):
        if not count:
            cells.append(NOTHING)
            values.append(None)
            phrases.append((0.0, ""))
            continue
        shares = own / count
        most = int(shares.argmax())
        shifts[cluster] = float((shares - overall)[most] / (overall * (1 - overall))[most].clamp_min(1e-12).sqrt())
        cells.append(f"{names[most]} ({float(shares[most]):.0%})")
        values.append(names[most])
        phrases.append(_category_phrase(column.name, names, shares, overall, count, total))
    typical = []
    if profile.has_typical:
        middle = profile.typical_counts_of(at)
        typical = [names[int(own.argmax())] if own.any() else NOTHING for own in middle]
    return DescribedColumn(column.name, _cramer(counts), cells, values, phrases, shifts, typical, column.kind)


def _category_phrase(
    name: str, names: Sequence[str], shares: Tensor, overall: Tensor, count: float, total: float
) -> tuple[float, str]:
    """Return how far a cluster's category shares differ from the overall ones, and a phrase on the largest one."""
    away = shares - overall
    at = int(torch.where(away > 0, 1.001 * away, -away).argmax())  # of two mirrored, the one there is more of
    share, usual = float(shares[at]), float(overall[at])
    if abs(share - usual) < _MIN_DIFFERENCE * (1 - count / total):
        return 0.0, ""
    spread = math.sqrt(max(usual * (1 - usual), 1e-12))
    stands = _one_against_rest(count, total, (share - usual) / spread)
    value = names[at] if at < len(names) - 1 else "one of the rare categories"
    return stands, f"{name} {_how_often(share, usual)} {value} ({share:.0%} against {usual:.0%})"


def _how_often(share: float, usual: float) -> str:
    if share > usual:
        return "mostly" if share > 0.5 else "often"
    return "rarely" if share < _RARE else "less often"


def _one_against_rest(count: float, total: float, shift: float) -> float:
    """Share of the variance between a cluster and all others, for a mean shifted by `shift` standard deviations."""
    return count / max(total - count, 1e-9) * shift * shift if count < total else 0.0


def _adjusted(between: float, whole: float, samples: float, clusters: int) -> float:
    """Return epsilon squared: the share of the variance between clusters, corrected for chance, in [0, 1]."""
    if whole <= 0 or samples <= clusters or clusters < 2:
        return 0.0
    return max(0.0, 1 - (1 - between / whole) * (samples - 1) / (samples - clusters))


def _cramer(counts: Tensor) -> float:
    """Return the bias-corrected square of Cramér's V of a contingency table ``(clusters, categories)`` (Bergsma)."""
    counts = counts[counts.sum(1) > 0][:, counts.sum(0) > 0]
    rows, columns = counts.shape
    total = float(counts.sum())
    if min(rows, columns) < 2 or total <= 1:
        return 0.0
    expected = torch.outer(counts.sum(1), counts.sum(0)) / total
    phi = float(((counts - expected).square() / expected).sum()) / total
    corrected = max(0.0, phi - (rows - 1) * (columns - 1) / (total - 1))
    width = min(rows - (rows - 1) ** 2 / (total - 1), columns - (columns - 1) ** 2 / (total - 1)) - 1
    return min(1.0, corrected / width) if width > 0 else 0.0
