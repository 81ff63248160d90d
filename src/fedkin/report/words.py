"""Clusters of a table in words: effect sizes, texts of table cells, what distinguishes a cluster, and who holds it."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from fedkin.core.client import MEASURED, Column, Kind
from fedkin.data.columns import count_lengths
from fedkin.data.encoding import OTHER, constant
from fedkin.data.population import short_names
from fedkin.data.profile import ClusterProfile
from fedkin.report.numbers import all_of, join_words, pluralize

MIN_EFFECT = 0.06
"""Share of a column's variance between clusters from which it is named: a medium effect in Cohen's words."""
_MIN_SHIFT, _MIN_DIFFERENCE = 0.5, 0.15
"""Standard deviations that a cluster's mean lies off the mean of all others, for its sentence to name the column, and
the same for the share of a category or of a truth value. The first is Cohen's medium effect."""
_NO_NAMES: Mapping[int, str] = {}
NOTHING = "–"
"""What stands where nothing is known."""


def cluster_title(cluster: int, names: Mapping[int, str]) -> str:
    """Return a cluster's number, and the name that a user gave it, if any."""
    return f"Cluster {cluster}, {names[cluster]}" if cluster in names else f"Cluster {cluster}"


def sentences(
    profile: ClusterProfile,
    names: Sequence[str] = (),
    columns: Sequence[DescribedColumn] | None = None,
    cluster_names: Mapping[int, str] = _NO_NAMES,
) -> list[str]:
    """Describe each cluster in a sentence: its size, what distinguishes it, and the clients with samples in it.

    `names` are the clients', in order of id; by default their ids. `columns` are those of the profile, where they are
    described already, and `cluster_names` those that users gave clusters.
    """
    named = [column for column in columns or described(profile) if column.effect >= MIN_EFFECT]
    texts = []
    for cluster, samples in enumerate(profile.samples.tolist()):
        phrases = sorted((column.phrases[cluster] for column in named), key=lambda phrase: -phrase[0])
        words = [words for weight, words in phrases if weight > 0][:4]
        nothing = "no column by itself distinguishes it from the others"
        words = words or ["the only cluster" if len(profile.samples) == 1 else nothing if profile.columns else ""]
        parts = "; ".join(filter(None, [", ".join(words), _held_by(profile, cluster, names)]))
        title = cluster_title(cluster, cluster_names)
        text = f"{title} ({pluralize(samples, 'sample')}){f': {parts}' if parts else ''}."
        why = "gone" if cluster in profile.gone else "too few samples at any one client to be described"
        texts.append(text if samples else f"{title}: {why}.")
    return texts


def _held_by(profile: ClusterProfile, cluster: int, names: Sequence[str]) -> str:
    """List the clients with samples in a cluster, the largest number first; an empty text where that is not known."""
    members = {client: int(counts[cluster]) for client, counts in profile.members.items()}
    holders = sorted((client for client, count in members.items() if count), key=lambda client: -members[client])
    if not holders or len(holders) == len(members) > 1:
        return all_of(len(members), "clients") if holders else ""
    short = dict(enumerate(name.removeprefix("Client ") for name in short_names(names)))
    few = ", few or none at others" if _unreported(profile, cluster) else ""
    texts = [short.get(client, str(client)) for client in holders]
    return f"{'client' if len(holders) == 1 else 'clients'} {join_words(texts, 5)}{few}"


def _unreported(profile: ClusterProfile, cluster: int) -> int:
    """Return how many samples of a cluster there may be at most at the clients that report none."""
    silent = sum(int(members[cluster]) == 0 for members in profile.members.values())
    most = silent * (profile.min_members - 1)
    return min(most, profile.withheld) if profile.rows else most


def remarks(
    profile: ClusterProfile, names: Sequence[str] = (), columns: Sequence[DescribedColumn] | None = None
) -> list[str]:
    """Return caveats of the profile as sentences.

    They are on one column that explains clusters, on samples that clients do not report, because too few show a
    cluster, and on missing clients.
    """
    caveats = []
    named = [column for column in (columns or described(profile))[:2] if column.effect >= MIN_EFFECT]
    if len(profile.columns) > 2 and len(named) == 1 and named[0].effect >= 0.8:
        caveats.append(
            f"Column '{named[0].name}' alone explains the clusters; if it is not what you look for, leave it out."
        )
    if profile.withheld:
        caveats.append(
            f"{profile.withheld:,} of {pluralize(profile.rows, 'sample')} are in no description: a client does not "
            f"report fewer than {profile.min_members} samples of a cluster, nor some of its largest cluster from which "
            "they could be inferred."
        )
    short = dict(enumerate(short_names(names)))
    for client, reason in profile.missing.items():
        name = short.get(client, f"client {client}")
        caveats.append(f"The descriptions of clusters are without {name} ({reason.rstrip('.')}).")
    return caveats


# Columns described over all clusters.


@dataclass(frozen=True)
class DescribedColumn:
    """Description of one column of a table over all clusters.

    `effect` is the effect size of the differences between clusters, in [0, 1]: epsilon squared (the share of the
    variance that lies between them, corrected for chance), or the bias-corrected square of Cramér's V. The others are
    by cluster. `cells` have the mean with the standard deviation, or the most frequent category and its share; `values`
    the mean, or the most frequent category, ``None`` if unknown. `phrases` have how far it differs from the others, 0
    if little, and the phrase that says so; `shifts` how many standard deviations its mean lies above that of all, or
    how the share of the category in the cell differs. `typical` is the value of a typical sample: the mean over the
    rows in the middle of the cluster, or their most frequent category or truth value.
    """

    name: str
    effect: float
    cells: list[str]
    values: list[float | str | None]
    phrases: list[tuple[float, str]]
    shifts: list[float]
    typical: list[str] = field(default_factory=list)
    kind: Kind = "number"


def described(profile: ClusterProfile) -> list[DescribedColumn]:
    """Describe the columns of a profile, in descending order of effect size."""
    lengths, moments = count_lengths(profile.columns), _moments(profile)
    columns = [
        _categories(profile, index) if lengths[index] else _numbers(profile, moments, index)
        for index in range(len(lengths))
    ]
    return sorted(columns, key=lambda column: -column.effect)


class _Moments(NamedTuple):
    """Cells, means and standard deviations ``(clusters, columns)``, and those over all clusters ``(columns,)``.

    They are float64, and meaningless for categorical columns. `between` and `whole` are sums of squares around the
    means of all. A column that varies by no more than rounding does has one mean everywhere, and no deviation.
    """

    n: Tensor
    means: Tensor
    deviations: Tensor
    mean: Tensor
    deviation: Tensor
    between: Tensor
    whole: Tensor


def _moments(profile: ClusterProfile) -> _Moments:
    n = profile.filled.double()
    total = n.sum(0).clamp_min(1)
    means, mean = profile.sum / n, profile.sum.sum(0) / total  # NaN where a cluster has no cell
    within = (profile.squares - n * (means - profile.around).square()).nan_to_num(0.0).clamp_min(0)
    between = n * (means - mean).square().nan_to_num(0.0)
    one_value = constant(mean, ((within + between).sum(0) / total).sqrt())
    within, between = within.masked_fill(one_value, 0.0), between.masked_fill(one_value, 0.0).sum(0)
    means = torch.where(one_value & ~means.isnan(), mean, means)
    whole = within.sum(0) + between
    return _Moments(n, means, (within / n).sqrt(), mean, (whole / total).sqrt(), between, whole)


def _numbers(profile: ClusterProfile, moments: _Moments, index: int) -> DescribedColumn:
    column = profile.columns[index]
    n, means, deviations = (values[:, index].tolist() for values in (moments.n, moments.means, moments.deviations))
    mean, spread = float(moments.mean[index]), float(moments.deviation[index])
    total = sum(n)
    effect = _adjusted(float(moments.between[index]), float(moments.whole[index]), total, sum(c > 0 for c in n))
    cells: list[str] = []
    phrases: list[tuple[float, str]] = []
    shifts: list[float] = []
    for count, average, scatter in zip(n, means, deviations, strict=True):
        if math.isnan(average):
            cells, phrases, shifts = [*cells, NOTHING], [*phrases, (0.0, "")], [*shifts, 0.0]
            continue
        text, usual_text = _mean_text(column, average, spread), _mean_text(column, mean, spread)
        cells.append(text + _after(column, scatter, spread))
        shift = (average - mean) / spread if spread > 0 else 0.0
        away = abs(average - mean) / max(1 - count / total, 1e-9)  # from the mean of all others
        is_far = away >= _MIN_DIFFERENCE if column.kind == "boolean" else away >= _MIN_SHIFT * spread > 0
        says_so = is_far and text != usual_text
        words = {"boolean": f"{column.name} {_how_often(average, mean)} {_true_level(column)}",
                 "date": f"{'late' if shift > 0 else 'early'} {column.name}"}  # fmt: skip
        phrase = words.get(column.kind, f"{'high' if shift > 0 else 'low'} {column.name}")
        weight = _one_against_rest(count, total, shift) if says_so else 0.0
        phrases.append((weight, f"{phrase} ({text} against {usual_text})"))
        shifts.append(shift)
    values: list[float | str | None] = [None if math.isnan(true) else true for true in means]
    if column.kind == "date":
        values = [None if math.isnan(true) else _mean_text(column, true, spread) for true in means]
    typical = []
    if profile.has_typical:
        # Of booleans and ordinal levels the nearest level.
        levels = column.categories or (("false", "true") if column.kind == "boolean" else ())
        for filled, middle in zip(profile.typical_filled[:, index], profile.typical_sum[:, index], strict=True):
            value = float(middle) / max(int(filled), 1) if spread else mean
            level = levels[min(max(round(value), 0), len(levels) - 1)] if levels else _mean_text(column, value, spread)
            typical.append(level if filled else NOTHING)
    return DescribedColumn(column.name, effect, cells, values, phrases, shifts, typical, column.kind)


def _categories(profile: ClusterProfile, index: int) -> DescribedColumn:
    column, counts = profile.columns[index], profile.counts_of(index).double()
    total, overall = float(counts.sum()), counts.sum(0) / counts.sum().clamp_min(1)
    names = [*column.categories, OTHER]
    described = DescribedColumn(column.name, _cramer(counts), [], [], [], [], kind=column.kind)
    for row in counts:
        count = float(row.sum())
        shares = row / max(count, 1.0)
        most, spreads = int(shares.argmax()), (overall * (1 - overall)).clamp_min(1e-12).sqrt()
        described.cells.append(f"{names[most]} ({float(shares[most]):.0%})" if count else NOTHING)
        described.values.append(names[most] if count else None)
        described.shifts.append(float(((shares - overall) / spreads)[most]) if count else 0.0)
        away = shares - overall
        place = int(torch.where(away > 0, 1.001 * away, -away).argmax())  # of two mirrored, the more frequent one
        share, usual = float(shares[place]), float(overall[place])
        value = names[place] if place < len(names) - 1 else "one of the rare categories"
        is_far = count and abs(share - usual) >= _MIN_DIFFERENCE * (1 - count / total)
        weight = _one_against_rest(count, total, (share - usual) / float(spreads[place])) if is_far else 0.0
        sides = f"({share:.0%} against {usual:.0%})"
        described.phrases.append((weight, f"{column.name} {_how_often(share, usual)} {value} {sides}"))
    if profile.has_typical:
        middle = profile.typical_counts_of(index)
        described.typical.extend(names[int(row.argmax())] if row.any() else NOTHING for row in middle)
    return described


def _how_often(share: float, usual: float) -> str:
    if share > usual:
        return "mostly" if share > 0.5 else "often"
    return "rarely" if share < 0.25 else "less often"


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


# Texts of means, in a column's own unit, with the digits that its standard deviation justifies.


def _mean_text(column: Column, value: float, spread: float) -> str:
    if column.kind == "boolean":
        return f"{value:.0%}"
    if column.kind == "date":
        try:
            return (datetime.datetime(1970, 1, 1) + datetime.timedelta(days=value)).date().isoformat()
        except OverflowError:
            return f"day {value:.0f}"
    if column.kind == "ordinal" and (levels := column.categories):
        nearest = min(max(round(value), 0), len(levels) - 1)
        return f"{levels[nearest]}, {value + 1:.1f} of {len(levels)}"
    return _rounded(value, spread)


def _after(column: Column, scatter: float, spread: float) -> str:
    """Return what stands after a mean in a cell: how values scatter, or which truth value is counted."""
    if column.kind == "boolean":
        return f" {_true_level(column)}"
    if column.kind not in MEASURED:
        return ""
    return f" ± {_rounded(scatter, spread)}{' days' if column.kind == 'date' else ''}"


def _true_level(column: Column) -> str:
    return column.categories[-1] if column.categories else "true"


def _rounded(value: float, spread: float) -> str:
    """Round a number to the digits that a standard deviation justifies: two significant ones of the deviation."""
    if spread <= 0 or not math.isfinite(spread):
        return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.6g}"
    exponent = math.floor(math.log10(spread))
    rounded = round(value, 1 - exponent) + 0.0  # never -0
    if -4 <= exponent < 8:  # written out, and not as powers of ten
        return f"{rounded:,.{max(1 - exponent, 0)}f}"
    if rounded == 0:
        return "0"
    return f"{rounded:.{max(math.floor(math.log10(abs(rounded))) - exponent + 1, 0)}e}"


def word_lines(words: Sequence[Sequence[str]], names: Mapping[int, str] = _NO_NAMES) -> list[str]:
    """Return a line for each cluster of texts, by its name if it has one, with the words that distinguish it."""
    return [f"{cluster_title(cluster, names)}: {', '.join(terms)}." for cluster, terms in enumerate(words) if terms]
