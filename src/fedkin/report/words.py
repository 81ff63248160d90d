"""Clusters of a table in words: effect sizes, texts of table cells, what distinguishes a cluster, and who holds it."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedkin.core.table import MEASURED, Kind
from fedkin.data.encoding import OTHER
from fedkin.data.population import client_name, short_names
from fedkin.data.profile import ClusterProfile
from fedkin.data.scaling import constant
from fedkin.data.schema import SchemaColumn
from fedkin.data.statistics import count_lengths
from fedkin.report.numbers import all_of, join_words, pluralize

MIN_EFFECT = 0.06
"""Share of a column's variance between clusters from which it is named: a medium effect in Cohen's words."""


def sentences(
    profile: ClusterProfile, names: Sequence[str] = (), columns: Sequence[DescribedColumn] | None = None
) -> list[str]:
    """Describe each cluster in a sentence: its size, what distinguishes it, and the clients with samples in it.

    `names` are the clients', in order of id; by default their ids. `columns` are those of the profile, where they are
    described already.
    """
    named = [column for column in columns or described(profile) if column.effect >= MIN_EFFECT]
    return [_sentence(profile, named, cluster, names) for cluster in range(len(profile.samples))]


def _sentence(profile: ClusterProfile, columns: Sequence[DescribedColumn], cluster: int, names: Sequence[str]) -> str:
    samples = int(profile.samples[cluster])
    if not samples:
        return f"Cluster {cluster}: too few samples at any one client to be described."
    phrases = sorted((column.phrases[cluster] for column in columns), key=lambda phrase: -phrase[0])
    words = [words for weight, words in phrases if weight > 0][:4]
    nothing = "no column by itself distinguishes it from the others"
    nothing = "the only cluster" if len(profile.samples) == 1 else nothing
    parts = [", ".join(words) or nothing, _held_by(profile, cluster, names)]
    return f"Cluster {cluster} ({pluralize(samples, 'sample')}): {'; '.join(filter(None, parts))}."


def _held_by(profile: ClusterProfile, cluster: int, names: Sequence[str]) -> str:
    """List the clients with samples in a cluster, the largest number first; an empty text where that is not known."""
    members = {client: int(counts[cluster]) for client, counts in profile.members.items()}
    holders = sorted((client for client, count in members.items() if count), key=lambda client: -members[client])
    if not holders:
        return ""
    short = [name.removeprefix("Client ") for name in short_names(names)]
    texts = [short[client] if client < len(short) else str(client) for client in holders]
    most, total = members[holders[0]], sum(members.values())
    weighs = 0.8 * total <= most < total and _is_clearly_more(profile, holders[0], most, total)
    if weighs:
        texts[0] += f" ({most / total:.0%})"
    if len(holders) == len(members) > 1:
        return f"{all_of(len(members), 'clients')}{f', mostly {texts[0]}' if weighs else ''}"
    few = ", few or none at others" if _unreported(profile, cluster) else ""
    return f"{'client' if len(holders) == 1 else 'clients'} {join_words(texts, 5)}{few}"


def remarks(
    profile: ClusterProfile, names: Sequence[str] = (), columns: Sequence[DescribedColumn] | None = None
) -> list[str]:
    """Return caveats of the profile as sentences.

    They are on one column or client that explains clusters, on samples that clients do not report, because too few show
    a cluster, and on missing clients.
    """
    caveats = []
    named = [column for column in (columns or described(profile))[:2] if column.effect >= MIN_EFFECT]
    if len(profile.columns) > 2 and len(named) == 1 and named[0].effect >= 0.8:
        caveats.append(
            f"Column '{named[0].name}' alone explains the clusters; if it is not what you look for, leave it out."
        )
    caveats += _of_one_client(profile, names)
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


def _of_one_client(profile: ClusterProfile, names: Sequence[str]) -> list[str]:
    """Name the clusters that nearly all come from one client of several, since its way to measure may be the reason.

    Its part of the cluster is then clearly above its part of all samples, as a client that holds nearly all has anyway.
    Samples that others do not report may exist: they leave it most of the cluster, but need not leave nearly all.
    """
    if len(profile.members) < 2 or len(profile.samples) < 2:
        return []
    clusters_of: dict[int, list[str]] = {}
    hidden = False
    for cluster in range(len(profile.samples)):
        members = {client: int(counts[cluster]) for client, counts in profile.members.items()}
        client = max(members, key=lambda holder: members[holder])
        reported, count = sum(members.values()), members[client]
        possible = reported + _unreported(profile, cluster)
        if count >= max(0.9 * reported, 0.6 * possible) > 0 and _is_clearly_more(profile, client, count, possible):
            clusters_of.setdefault(client, []).append(str(cluster))
            hidden |= count < 0.8 * possible
    if not clusters_of:
        return []
    clauses = [
        f"of {'cluster' if len(clusters) == 1 else 'clusters'} {join_words(clusters, 10)}"
        f"{'' if turn else ' come'} from {client_name(client, names)}"
        for turn, (client, clusters) in enumerate(clusters_of.items())
    ]
    return [
        f"Nearly all {'reported ' if hidden else ''}samples {join_words(clauses, 5)}: where a client measures or "
        "codes differently, its samples look like a cluster."
    ]


def _is_clearly_more(profile: ClusterProfile, client: int, count: int, cluster: int) -> bool:
    """Return whether a client's `count` of the samples of a `cluster` is far more than its share of all samples.

    The other clients then have at most half of what their share of all samples lets expect, less one.
    """
    samples = {holder: int(members.sum()) for holder, members in profile.members.items()}
    rest = 1 - samples[client] / max(1, sum(samples.values()))
    return cluster - count <= 0.5 * rest * cluster - 1.0


def _unreported(profile: ClusterProfile, cluster: int) -> int:
    """Return how many samples of a cluster there may be at most at the clients that report none."""
    silent = sum(int(members[cluster]) == 0 for members in profile.members.values())
    most = silent * (profile.min_members - 1)
    return min(most, profile.withheld) if profile.rows else most


# Columns described over all clusters.


NOTHING = "–"
"""What stands where nothing is known."""
_MIN_SHIFT, _MIN_DIFFERENCE = 0.5, 0.15
"""Standard deviations that a cluster's mean lies off the mean of all others, for its sentence to name the column, and
the same for the share of a category or of a truth value."""


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
    columns = [
        _categories(profile, index) if lengths[index] else _numbers(profile, *both, index)
        for index in range(len(lengths))
    ]
    return sorted(columns, key=lambda column: -column.effect)


def _numbers(profile: ClusterProfile, moments: Moments, limited: Moments, index: int) -> DescribedColumn:
    """Describe a column by its true moments; which clusters differ in it is read from those of limited values.

    If a few extreme values reverse or hide the difference of true means, the phrase has limited means, and says so.
    """
    column, n, means = profile.columns[index], moments.n[index], moments.means[index]
    total, mean, spread = limited.total[index], limited.mean[index], limited.spread[index]
    effect = _adjusted(limited.between[index], limited.whole[index], total, sum(count > 0 for count in n))
    write = ColumnWriter(column, spread, mean)
    cells, phrases, shifts = [], [], [0.0] * len(means)
    for cluster, (true, within) in enumerate(zip(means, limited.means[index], strict=True)):
        if math.isnan(within):
            cells.append(NOTHING)
            phrases.append((0.0, ""))
            continue
        scatter = moments.scatter[index][cluster]
        cells.append(write(true, scatter) + write.after(true, scatter))
        shift = (within - mean) / spread if spread > 0 else 0.0
        shifts[cluster] = shift
        away = abs(within - mean) / max(1 - n[cluster] / total, 1e-9)  # from the mean of all others
        is_far = away >= _MIN_DIFFERENCE if column.kind == "boolean" else away >= _MIN_SHIFT * spread > 0
        written, usual, how = write(true, scatter), write(moments.mean[index]), ""
        if (true > moments.mean[index]) is not (within > mean) or written == usual:
            limits = write(within, limited.scatter[index][cluster]), write(mean)
            written, usual, how = (*limits, ", limited" if (written, usual) != limits else "")
        stands = _one_against_rest(n[cluster], total, shift) if is_far and written != usual else 0.0
        phrases.append((stands, _phrase(column, shift > 0, f"({written} against {usual}{how})", within, mean)))
    values: list[float | str | None] = [None if math.isnan(true) else true for true in means]
    if column.kind == "date":
        values = [None if value is None else write(float(value)) for value in values]
    typical = _typical_numbers(profile, moments, index, write)
    return DescribedColumn(column.name, effect, cells, values, phrases, shifts, typical, column.kind)


def _typical_numbers(profile: ClusterProfile, moments: Moments, index: int, write: ColumnWriter) -> list[str]:
    """Return the value of each cluster's typical sample; for booleans and ordinal levels the nearest level."""
    if not profile.has_typical:
        return []
    column, texts = profile.columns[index], []
    rows = zip(moments.typical_filled[index], moments.typical_sum[index], moments.scatter[index], strict=True)
    for filled, total, scatter in rows:
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


def _phrase(column: SchemaColumn, above: bool, sides: str, share: float, usual: float) -> str:
    if column.kind == "boolean":
        return f"{column.name} {_how_often(share, usual)} {true_level(column.categories)} {sides}"
    if column.kind == "date":
        return f"{'late' if above else 'early'} {column.name} {sides}"
    return f"{'high' if above else 'low'} {column.name} {sides}"


def _categories(profile: ClusterProfile, index: int) -> DescribedColumn:
    column = profile.columns[index]
    counts = profile.counts_of(index).double()
    n, total = counts.sum(1), float(counts.sum())
    overall = counts.sum(0) / max(total, 1.0)
    names = [*column.categories, OTHER]
    cells: list[str] = []
    values: list[float | str | None] = []
    phrases: list[tuple[float, str]] = []
    shifts = [0.0] * len(counts)
    for cluster, (row, count) in enumerate(zip(counts, n.tolist(), strict=True)):
        if not count:
            cells.append(NOTHING)
            values.append(None)
            phrases.append((0.0, ""))
            continue
        shares = row / count
        most = int(shares.argmax())
        shifts[cluster] = float((shares - overall)[most] / (overall * (1 - overall))[most].clamp_min(1e-12).sqrt())
        cells.append(f"{names[most]} ({float(shares[most]):.0%})")
        values.append(names[most])
        phrases.append(_category_phrase(column.name, names, shares, overall, count, total))
    typical = []
    if profile.has_typical:
        middle = profile.typical_counts_of(index)
        typical = [names[int(row.argmax())] if row.any() else NOTHING for row in middle]
    return DescribedColumn(column.name, _cramer(counts), cells, values, phrases, shifts, typical, column.kind)


def _category_phrase(
    name: str, names: Sequence[str], shares: Tensor, overall: Tensor, count: float, total: float
) -> tuple[float, str]:
    """Return how far a cluster's category shares differ from the overall ones, and a phrase on the largest one."""
    away = shares - overall
    place = int(torch.where(away > 0, 1.001 * away, -away).argmax())  # of two mirrored, the more frequent one
    share, usual = float(shares[place]), float(overall[place])
    if abs(share - usual) < _MIN_DIFFERENCE * (1 - count / total):
        return 0.0, ""
    spread = math.sqrt(max(usual * (1 - usual), 1e-12))
    stands = _one_against_rest(count, total, (share - usual) / spread)
    value = names[place] if place < len(names) - 1 else "one of the rare categories"
    return stands, f"{name} {_how_often(share, usual)} {value} ({share:.0%} against {usual:.0%})"


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


class Moments:
    """Means and standard deviations of all columns, as lists by column; meaningless for categorical columns.

    A column that varies by no more than rounding does has one mean everywhere, and no spread.
    """

    def __init__(self, profile: ClusterProfile) -> None:
        n = profile.filled.double()
        total = n.sum(0)
        means = profile.sum / n  # NaN where there is no cell
        mean = profile.sum.sum(0) / total.clamp_min(1)
        within = (profile.squares - n * (means - profile.around).square()).nan_to_num(0.0).clamp_min(0)
        between = n * (means - mean).square().nan_to_num(0.0)
        whole = (within + between).sum(0)
        one_value = constant(mean, (whole / total.clamp_min(1)).sqrt())
        means = torch.where(one_value & ~means.isnan(), mean, means)
        within, between = within.masked_fill(one_value, 0.0), between.masked_fill(one_value, 0.0)
        whole = whole.masked_fill(one_value, 0.0)
        self.n, self.total, self.whole = n.T.tolist(), total.tolist(), whole.tolist()
        self.means, self.mean, self.between = means.T.tolist(), mean.tolist(), between.sum(0).tolist()
        self.spread, self.scatter = (whole / total.clamp_min(1)).sqrt().tolist(), (within / n).sqrt().T.tolist()
        self.typical_filled, typical = profile.typical_filled.T.tolist(), profile.typical_sum
        if profile.has_typical:
            typical = torch.where(one_value, profile.typical_filled * mean, typical)
        self.typical_sum = typical.T.tolist()


# Texts of means.


_EPOCH = datetime.datetime(1970, 1, 1)


class ColumnWriter:
    """Format means of a column in its own unit, with the digits that its standard deviation justifies.

    A cluster's mean has those of the cluster's own if that is far smaller, as where one client has another unit.
    """

    def __init__(self, column: SchemaColumn, spread: float, mean: float = 0.0) -> None:
        self.kind, self.levels, self.spread = column.kind, column.categories, spread
        # Years: values of any name between these that scatter within 40; whole ones are written.
        in_range = mean - spread >= 1850 and mean + spread <= 2100 and spread <= 40
        self.is_year = column.kind == "number" and in_range

    def __call__(self, value: float, scatter: float = math.inf) -> str:
        if self.kind == "boolean":
            return f"{value:.0%}"
        if self.kind == "date":
            try:
                return (_EPOCH + datetime.timedelta(days=value)).date().isoformat()
            except OverflowError:
                return f"day {value:.0f}"
        if self.kind == "ordinal" and self.levels:
            nearest = min(max(round(value), 0), len(self.levels) - 1)
            return f"{self.levels[nearest]}, {value + 1:.1f} of {len(self.levels)}"
        written = _rounded(value, self.digits_of(scatter))
        if self.is_year:
            return f"{value:.0f}" if self.digits_of(scatter) >= 1 else written.replace(",", "")
        return written

    def after(self, value: float, scatter: float) -> str:
        """Return what stands after a mean in a cell: how values scatter, or which truth value is counted."""
        digits = self.digits_of(scatter)
        scatter = scatter if digits > 0 else 0.0
        if self.kind == "boolean":
            return f" {true_level(self.levels)}"
        if self.kind not in MEASURED:
            return ""
        return f" ± {_rounded(scatter, digits)}{' days' if self.kind == 'date' else ''}"

    def digits_of(self, scatter: float) -> float:
        """Return the standard deviation that justifies the digits of a mean of values with `scatter`."""
        if not scatter < 0.1 * self.spread:
            return self.spread
        return scatter if scatter > 1e-6 * self.spread else 0.0


def true_level(levels: Sequence[str]) -> str:
    """Return what the second of two truth values is called."""
    return levels[-1] if levels else "true"


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


def word_lines(words: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each cluster of texts with the words that distinguish it."""
    return [f"Cluster {cluster}: {', '.join(own)}." for cluster, own in enumerate(words) if own]
