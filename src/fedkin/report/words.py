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
_EXPLAINS = 0.8
"""Effect from which one column explains the clusters, where no other is named."""
_ALONE, _AT_LEAST = 0.9, 0.6
"""Minimum share of one client in a cluster's reported samples, and in all that there may be, for a remark on it."""
_SURELY = 0.8
"""Share of all samples that there may be below which the remark speaks of reported samples only."""
_MOSTLY = 0.8
"""Share of the reported samples from which the sentence on a cluster gives the share of its largest client."""
_CLEARLY, _BY_CHANCE = 0.5, 1.0
"""Others have at most this part of the samples that their share of all samples lets expect, less `_BY_CHANCE`."""
_NAMED = 4
_CLIENTS, _NAMED_CLUSTERS = 5, 10


def sentences(
    profile: ClusterProfile, names: Sequence[str] = (), columns: Sequence[DescribedColumn] | None = None
) -> list[str]:
    """Describe each cluster in a sentence: its size, what distinguishes it, and the clients with samples in it.

    `names` are the clients', in order of id; by default their ids. `columns` are those of the profile, where they are
    known already.
    """
    distinguishing = [one for one in columns or described(profile) if one.effect >= MIN_EFFECT]
    return [_sentence(profile, distinguishing, cluster, names) for cluster in range(len(profile.samples))]


def remarks(
    profile: ClusterProfile, names: Sequence[str] = (), columns: Sequence[DescribedColumn] | None = None
) -> list[str]:
    """Return caveats of the profile as sentences.

    They are on one column or client that explains clusters, on geometric means, on samples and categories that clients
    do not report, and on missing clients.
    """
    alone = [one for one in (columns or described(profile))[:2] if one.effect >= MIN_EFFECT]
    explains = len(profile.columns) > 2 and len(alone) == 1 and alone[0].effect >= _EXPLAINS
    explaining = [
        f"Column '{one.name}' alone explains the clusters; if it is not what you look for, leave it out."
        for one in (alone if explains else ())
    ]
    called = dict(enumerate(short_names(names)))
    return (
        explaining
        + _of_one_client(profile, names)
        + _not_reported(profile)
        + [
            f"The descriptions of clusters are without {called.get(client, f'client {client}')} ({reason.rstrip('.')})."
            for client, reason in profile.missing.items()
        ]
    )


def _not_reported(profile: ClusterProfile) -> list[str]:
    """Say how many samples are in no description, because too few of a client show it."""
    if not profile.withheld:
        return []
    return [
        f"{profile.withheld:,} of {pluralize(profile.rows, 'sample')} are in no description: a client does not report "
        f"fewer than {profile.min_members} samples of a cluster, nor some of its largest cluster from which they could "
        "be inferred."
    ]


def _of_one_client(profile: ClusterProfile, names: Sequence[str]) -> list[str]:
    """Name the clusters that nearly all come from one client of several, since its way to measure may be the reason.

    Its part of the cluster is then clearly above its part of all samples, as a client that holds nearly all has anyway.
    Samples that others do not report may be there: they leave it most of the cluster, but need not leave nearly all.
    """
    if len(profile.members) < 2 or len(profile.samples) < 2:
        return []
    found: dict[int, list[str]] = {}
    hidden = False
    for cluster in range(len(profile.samples)):
        client, known = _largest_holder(profile, cluster)
        most = known + _unreported(profile, cluster)
        own = int(profile.members[client][cluster])
        if own >= max(_ALONE * known, _AT_LEAST * most) > 0 and _is_clearly_more(profile, client, own, most):
            found.setdefault(client, []).append(str(cluster))
            hidden |= own < _SURELY * most
    if not found:
        return []
    said = [
        f"of {'cluster' if len(clusters) == 1 else 'clusters'} {join_words(clusters, _NAMED_CLUSTERS)}"
        f"{'' if at else ' come'} from {client_name(client, names)}"
        for at, (client, clusters) in enumerate(found.items())
    ]
    return [
        f"Nearly all {'reported ' if hidden else ''}samples {join_words(said, _CLIENTS)}: where a client measures or "
        "codes differently, its samples look like a cluster."
    ]


def _largest_holder(profile: ClusterProfile, cluster: int) -> tuple[int, int]:
    """Return the client with most samples of a cluster, and how many all clients report."""
    own = {client: int(members[cluster]) for client, members in profile.members.items()}
    return max(own, key=lambda each: own[each]), sum(own.values())


def _is_clearly_more(profile: ClusterProfile, client: int, own: int, most: int) -> bool:
    """Return whether a client has far more of a cluster of `most` samples than its share of all samples."""
    of_all = {client: int(members.sum()) for client, members in profile.members.items()}
    others = 1 - of_all[client] / max(1, sum(of_all.values()))
    return most - own <= _CLEARLY * others * most - _BY_CHANCE


def _unreported(profile: ClusterProfile, cluster: int) -> int:
    """Return how many samples of a cluster there may be at most at the clients that report none."""
    silent = sum(int(members[cluster]) == 0 for members in profile.members.values())
    most = silent * (profile.min_members - 1)
    return min(most, profile.withheld) if profile.rows else most


def _sentence(profile: ClusterProfile, columns: Sequence[DescribedColumn], cluster: int, names: Sequence[str]) -> str:
    samples = int(profile.samples[cluster])
    if not samples:
        return f"Cluster {cluster}: too few samples at any one client to be described."
    phrases = sorted((column.phrases[cluster] for column in columns), key=lambda phrase: -phrase[0])
    words = [words for weight, words in phrases if weight > 0][:_NAMED]
    alone = "the only cluster" if len(profile.samples) == 1 else "no column by itself distinguishes it from the others"
    parts = [", ".join(words) or alone, _held_by(profile, cluster, names)]
    return f"Cluster {cluster} ({pluralize(samples, 'sample')}): {'; '.join(filter(None, parts))}."


def _held_by(profile: ClusterProfile, cluster: int, names: Sequence[str]) -> str:
    """List the clients with samples in a cluster, the largest number first; an empty text where that is not known."""
    own = {client: int(members[cluster]) for client, members in profile.members.items()}
    holders = sorted((client for client, count in own.items() if count), key=lambda client: -own[client])
    if not holders:
        return ""
    short = [name.removeprefix("Client ") for name in short_names(names)]
    called = [short[client] if client < len(short) else str(client) for client in holders]
    most, known = own[holders[0]], sum(own.values())
    weighs = _MOSTLY * known <= most < known and _is_clearly_more(profile, holders[0], most, known)
    if weighs:
        called[0] += f" ({most / known:.0%})"
    if len(holders) == len(own) > 1:
        return f"{all_of(len(own), 'clients')}{f', mostly {called[0]}' if weighs else ''}"
    few = ", few or none at others" if _unreported(profile, cluster) else ""
    return f"{'client' if len(holders) == 1 else 'clients'} {join_words(called, _CLIENTS)}{few}"


# Columns described over all clusters.


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
        phrases.append((stands, _phrase(column, shift > 0, f"({written} against {usual}{how})", own, mean)))
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


_SMALLEST, _LARGEST = -4, 8
"""Exponents of a column's spread between which its numbers are written out, and not as powers of ten."""
_MANY_DIGITS = 1e15
"""Above it floats are not exact to one."""
_FAR_SMALLER, _NONE = 0.1, 1e-6
"""Parts of a column's standard deviation below which that of a cluster counts on its own, or as none."""
_FIRST, _LAST, _YEARS = 1850, 2100, 40
"""Years that a column of any name holds, if its values scatter within so many; whole ones are written."""
_EPOCH = datetime.datetime(1970, 1, 1)


class ColumnWriter:
    """Format means of a column in its own unit, with the digits that its standard deviation justifies.

    A cluster's mean has those of the cluster's own if that is far smaller, as where one client has another unit.
    """

    def __init__(self, column: SchemaColumn, spread: float, mean: float = 0.0) -> None:
        self.kind, self.levels, self.spread = column.kind, column.categories, spread
        in_range = mean - spread >= _FIRST and mean + spread <= _LAST and spread <= _YEARS
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
        if not scatter < _FAR_SMALLER * self.spread:
            return self.spread
        return scatter if scatter > _NONE * self.spread else 0.0


def true_level(levels: Sequence[str]) -> str:
    """Return what the second of two truth values is called."""
    return levels[-1] if levels else "true"


def _rounded(value: float, spread: float) -> str:
    """Round a number to the digits that a standard deviation justifies: two significant ones of the deviation."""
    if spread <= 0 or not math.isfinite(spread):
        return f"{value:,.0f}" if value == round(value) and abs(value) < _MANY_DIGITS else f"{value:.6g}"
    exponent = math.floor(math.log10(spread))
    rounded = round(value, 1 - exponent) + 0.0  # never -0
    if _SMALLEST <= exponent < _LARGEST:
        return f"{rounded:,.{max(1 - exponent, 0)}f}"
    if rounded == 0:
        return "0"
    return f"{rounded:.{max(math.floor(math.log10(abs(rounded))) - exponent + 1, 0)}e}"
