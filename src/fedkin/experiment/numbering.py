"""Numbers and names of clusters: numbers that follow those of an earlier run or fit, what has changed since, names.

Clients assign their rows by the earlier result, and clusters of now and before with mostly the same rows have the same
number; other clusters get numbers that no cluster had. See `fedkin.data.profile`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from fedkin.clustering.matching import corresponding
from fedkin.core import Federation, FedkinError
from fedkin.core.files import folder_lock, write_atomically
from fedkin.core.method import CanPredict
from fedkin.core.runner import NUMBERS, in_places
from fedkin.data.encoding import Encoding
from fedkin.data.options import MIN_MEMBERS
from fedkin.data.profile import (
    BY_CLUSTER,
    EARLIER,
    ClusterProfile,
    check_encodings,
    count_transitions,
    profile_clusters,
)
from fedkin.experiment.run_folder import (
    CLUSTER_NAMES,
    LEDGER,
    REPORT,
    check_finished,
    is_finished,
    load_found,
    read_names,
    read_sizes,
    run_config,
)
from fedkin.report import figures as fig
from fedkin.report.numbers import join_words
from fedkin.report.words import described


@dataclass(frozen=True)
class Numbers:
    """Numbers of clusters: `by_cluster`, int64 ``(k,)``, those of the method's own, of `count` that were ever given."""

    by_cluster: Tensor
    count: int

    def of_result(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result with these numbers, if they are not those that it has."""
        are_own = self.count == len(self.by_cluster) and torch.equal(self.by_cluster, torch.arange(self.count))
        return dict(result) if are_own else {**result, "n_clusters": self.count, NUMBERS: self.by_cluster}

    def of_state(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the clusters of a client's rows, and memberships if any, from a copy of its state in this process."""
        clusters = state["clusters"]
        parts = {"clusters": torch.where(clusters < 0, clusters, self.by_cluster[clusters.clamp_min(0)])}
        shares = state.get("memberships")
        return parts if shares is None else {**parts, "memberships": self.placed(shares, 1)}

    def of_profile(self, profile: ClusterProfile) -> ClusterProfile:
        """Return the profile with its clusters at their numbers."""
        parts: dict[str, Any] = {name: self.placed(part) for name in BY_CLUSTER if len(part := getattr(profile, name))}
        members = {client: self.placed(counts) for client, counts in profile.members.items()}
        gone = tuple(sorted({*range(self.count)} - {*self.by_cluster.tolist()}))
        return replace(profile, members=members, gone=gone, **parts)

    def of_words(self, words: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the words of clusters at their numbers."""
        placed: list[list[str]] = [[] for _ in range(self.count)]
        for number, each in zip(self.by_cluster.tolist(), words, strict=False):
            placed[number] = list(each)
        return placed if any(words) else []

    def placed(self, values: Tensor, dim: int = 0) -> Tensor:
        """Return values by cluster along `dim` at the clusters' numbers."""
        return in_places(values, self.by_cluster, self.count, dim)


@dataclass(frozen=True)
class Earlier:
    """What an earlier run or fit has found, whose numbers another keeps.

    `origin` is what it is called; `method` is its method's class, `result` what that found in data as `encoding`
    prepares them, `sizes` are the rows of each cluster, `names` those that users gave, and `profile` describes the
    clusters, if it is known.
    """

    origin: str
    method: type[Any]
    result: Mapping[str, Any]
    encoding: Encoding
    sizes: Mapping[int, int]
    names: Mapping[int, str] = field(default_factory=dict)
    profile: ClusterProfile | None = None

    @property
    def n_clusters(self) -> int:
        """How many numbers were ever given."""
        return int(self.result["n_clusters"])

    def check(self, method: Any, encoding: Encoding) -> None:
        """Raise FedkinError if clusters that `method` finds in data as `encoding` prepares them cannot be followed."""
        if not isinstance(self.method, CanPredict):
            raise FedkinError(f"The method of {self.origin} assigns no rows, so that clusters keep no numbers.")
        if method.is_private():
            raise FedkinError(
                "Clusters keep numbers by counts that clients send, which the method's epsilon does not cover; leave "
                f"out that they are those of {self.origin}."
            )
        check_encodings(self.encoding, encoding, self.origin)

    def ask(
        self, fed: Federation, n_clusters: int, least: int = MIN_MEMBERS, new: bool = False
    ) -> tuple[Tensor, ClusterProfile | None]:
        """Ask clients how many rows of each cluster before are in each now, and what (`new`) rows of those are like.

        The table is int64 ``(self.n_clusters, n_clusters)``, zeros where clients send none; a cell of fewer than
        `least` rows at a site is left out. The profile is only asked for where there is one of before.
        """
        question = {
            "method": f"{self.method.__module__}:{self.method.__qualname__}", "result": dict(self.result),
            "encoding": self.encoding.tree(), "before": self.n_clusters, "after": n_clusters, "min_members": least,
        }  # fmt: skip
        shape = (self.n_clusters, n_clusters)
        sums = fed.sums().ask(count_transitions, question, {"table": shape}) if fed.present else None
        if sums is None:
            return torch.zeros(shape, dtype=torch.int64), None
        is_described = self.profile is not None
        how = (self.encoding, self.n_clusters, least, EARLIER, new)
        return sums["table"].round().long(), profile_clusters(fed, *how) if is_described else None

    def described_with(
        self, profile: ClusterProfile | None, numbers: Numbers, result: Mapping[str, Any], clients: Mapping[int, int]
    ) -> ClusterProfile | None:
        """Return the profile of new rows, whose clusters have `numbers`, and of the rows before together.

        These are in the clusters that the method's new `result` says theirs have become; without its word the profile
        is returned as it is. `clients` are ids now by those before.
        """
        continued = self.method.continued(self.result, result)
        if profile is None or self.profile is None or continued is None:
            return profile
        clusters = torch.arange(self.n_clusters)
        clusters[self.result.get(NUMBERS, clusters.clone())] = numbers.by_cluster[continued]
        return profile.with_before(self.profile, clusters, clients)

    def numbers(self, table: Tensor, result: Mapping[str, Any]) -> Numbers:
        """Return the numbers of the clusters of a new result, by the table that `ask` returns.

        A cluster that is empty in it has its number by what the method says has become of it, where data are prepared
        as before.
        """
        numbers = torch.full((int(result["n_clusters"]),), -1)
        for old, new in corresponding(table).items():
            numbers[new] = old
        earlier = self.result.get(NUMBERS, torch.arange(self.n_clusters)).tolist()
        continued = self.method.continued(self.result, result)
        for old, new in zip(earlier, [] if continued is None else continued.tolist(), strict=False):
            if numbers[new] < 0 and old not in numbers and not (table[old].any() or table[:, new].any()):
                numbers[new] = old
        fresh = numbers < 0
        numbers[fresh] = self.n_clusters + torch.arange(int(fresh.sum()))
        return Numbers(numbers, max(self.n_clusters, int(numbers.max()) + 1))


def earlier_of(folder: Path) -> Earlier:
    """Return what the run in `folder` has found; raise FedkinError if it holds no finished one that clusters samples.

    Of a real federation's run, whose sites alone have the clusters of rows, sizes are as far as sites report them.
    """
    check_finished(folder)
    saved = load_found(folder)
    if saved.method.traits.clusters != "samples":
        raise FedkinError(f"{folder} has clusters of clients, whose numbers no run keeps.")
    reported = {} if saved.profile is None else dict(enumerate(saved.profile.samples.tolist()))
    sizes = {cluster: size for cluster, size in (read_sizes(folder) or reported).items() if size}
    encoding = saved.preparation.encoding
    return Earlier(str(folder), saved.method, saved.result, encoding, sizes, read_names(folder), saved.profile)


def followed_by(folder: Path) -> list[str]:
    """Return the setting with which a run keeps the numbers of the one in `folder`; none where it cannot."""
    method, is_real = run_config(folder).method, (folder / LEDGER).is_file()
    if method.traits.clusters != "samples" or method.is_private():
        return []
    place = folder.resolve() if is_real else folder  # for its server works elsewhere
    return [f"evaluation.like={json.dumps(str(place), ensure_ascii=False)}"]


def written_numbers(folder: Path) -> Numbers | None:
    """Return the numbers that a finished run in `folder` has given its clusters; ``None`` if it must give them yet."""
    if not is_finished(folder):
        return None
    try:
        result = load_found(folder).result
    except FedkinError:  # a damaged result is to be written again
        return None
    count = int(result["n_clusters"])
    return Numbers(result.get(NUMBERS, torch.arange(count)), count)


# What has changed since the run whose numbers clusters keep: sizes, moved rows, drifted clusters.


CHANGES, CHANGES_PAGE = "changes.json", "changes.html"
ANEW = 0.1  # above 99 of 100 months without a change, below 94 with a new class: benchmarks/monthly_updates.py
"""Share of rows in drifted clusters from which clustering anew is advised."""
_SHIFT, _ERRORS = 0.5, 4.0  # Cohen's medium effect, and beyond chance in hundreds of columns (p < 0.0001)
"""Standard deviations, and standard errors, that a cluster's mean has moved at least where the cluster has drifted."""

Status = Literal["kept", "drifted", "new", "empty", "gone"]


@dataclass(frozen=True)
class ChangedCluster:
    """One cluster, before and now.

    Attributes
    ----------
    cluster : int
        Its number.
    name : str
        Its name; empty without one.
    status : {"kept", "drifted", "new", "empty", "gone"}
        Whether it was there before and is there now, and whether the rows that the result before puts into it are
        otherwise than those of before; "empty" without rows now.
    before, now : int
        Rows in it, of the run before and of this one.
    came, left : int
        Rows of now that are in it and not by the result before, and the other way round.
    drifts : list of str
        How columns differ, such as "age 66.1 (61.2 before)"; the largest first.
    """

    cluster: int
    name: str
    status: Status
    before: int
    now: int
    came: int
    left: int
    drifts: list[str]


@dataclass(frozen=True)
class Changes:
    """What has changed since the run before; printed, it is a text.

    Attributes
    ----------
    since : str
        The run before.
    clusters : list of ChangedCluster
        All clusters of both, by number.
    rows, moved : int
        Rows now, as far as clients report them; and those in another cluster than by the result before.
    doubt : float or None
        Share of the rows that the result before puts into clusters that have drifted; ``None`` without named columns.
    anew : bool
        Whether these are so many that the clusters should be found anew.
    """

    since: str
    clusters: list[ChangedCluster]
    rows: int
    moved: int
    doubt: float | None
    anew: bool

    @property
    def names(self) -> dict[int, str]:
        """The names that clusters keep."""
        return {each.cluster: each.name for each in self.clusters if each.name and each.status != "gone"}

    def lines(self) -> list[str]:
        """Return sentences on what has changed, the most important first."""
        lines = []
        if self.doubt is not None:
            share = f"{self.doubt:.0%} of the rows would be in clusters that are no longer what they were"
            advice = "Cluster all rows anew, keeping the numbers, and look at both results before anybody acts on them."
            verdict = f"Much has changed: {share}. {advice}" if self.anew else f"The clusters still hold: {share}."
            lines.append(verdict)
        verb = "is" if self.moved == 1 else "are"
        lines.append(f"{self.moved:,} of {self.rows:,} rows {verb} in another cluster than by the result before.")
        for status, text in (("new", "New"), ("empty", "Without rows now"), ("gone", "Gone")):
            clusters = [each for each in self.clusters if each.status == status]
            titles = [f"c{_title(each)[1:]} ({max(each.before, each.now):,})" for each in clusters]
            lines += [f"{text}: {join_words(titles, 12)}."] if titles else []
        drifted = [each for each in self.clusters if each.status == "drifted"]
        return lines + [f"{_title(each)} has drifted: {join_words(each.drifts[:3])}." for each in drifted]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def write(self, folder: Path) -> None:
        """Write ``changes.json`` and the page ``changes.html`` into a run's folder; they hold counts, and no row."""
        write_atomically(folder / CHANGES, json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n")
        rows = []
        for each in self.clusters:
            counts = [f"{count:,}" for count in (each.before, each.now, each.came, each.left)]
            cells = (each.status, *counts, "; ".join(each.drifts[:3]) or "–")
            rows.append((_title(each), [*map(fig.TableCell, cells)]))
        caption = (
            "Rows before and now; of the rows of now those that came into the cluster, which the result before puts "
            "into another one, and those that left. A cluster has drifted if, of the rows that the result before puts "
            f"there, a column's mean or a category's share has moved by {_SHIFT:g} standard deviations and more than "
            f"chance would. From {ANEW:.0%} of the rows in such clusters on, cluster anew."
        )
        heads = ["status", "before", "now", "came", "left", "what drifted"]
        table = fig.ResultTable("Before and now", caption, "cluster", heads, rows)
        from fedkin.report.page import write_page

        parts = [fig.PagePart("clusters", "Clusters", figures=[table])] if rows else []
        write_page(folder / CHANGES_PAGE, fig.PageView("What has changed", "\n".join(self.lines()), parts=parts))


def compared(earlier: Earlier, numbers: Numbers, table: Tensor, seen: ClusterProfile | None) -> Changes:
    """Compare clusters that have `numbers` with those of the run or fit before.

    `table`, int64 ``(before, after)``, and the profile `seen` are as `Earlier.ask` returns them.
    """
    moves, exist = numbers.placed(table, 1), {*numbers.by_cluster.tolist()}
    sizes, by_earlier, same = moves.sum(0).tolist(), moves.sum(1).tolist(), moves.diagonal().tolist()
    drifts = {} if seen is None or earlier.profile is None else drifted_columns(earlier.profile, seen)
    clusters, listed = [], {cluster for cluster, count in enumerate(sizes) if count} | earlier.sizes.keys()
    for cluster in sorted(listed | (earlier.names.keys() & exist)):
        was, staying = earlier.sizes.get(cluster, 0), same[cluster] if cluster < len(same) else 0
        leaving = by_earlier[cluster] - staying if cluster < len(by_earlier) else 0
        drifted = drifts.get(cluster, []) if was else []
        status: Status = "new" if not was else "drifted" if drifted else "kept"
        status = status if sizes[cluster] else "empty" if cluster in exist else "gone"
        name, coming = earlier.names.get(cluster, ""), sizes[cluster] - staying
        clusters.append(ChangedCluster(cluster, name, status, was, sizes[cluster], coming, leaving, drifted))
    rows, doubtful = sum(sizes), sum(by_earlier[cluster] for cluster in drifts if cluster < len(by_earlier))
    doubt = None if seen is None else doubtful / max(rows, 1)
    return Changes(earlier.origin, clusters, rows, rows - sum(same), doubt, doubt is not None and doubt >= ANEW)


def drifted_columns(before: ClusterProfile, now: ClusterProfile) -> dict[int, list[str]]:
    """Return how columns of clusters with the same number differ, by cluster, the largest shift first."""
    texts = [{column.name: column for column in described(profile)} for profile in (before, now)]
    places = {column.name: i for i, column in enumerate(now.columns)}
    shifted: dict[int, list[tuple[float, str]]] = {}
    for i, column in enumerate(before.columns):
        if column.name not in places or now.columns[places[column.name]].kind != column.kind:
            continue
        for cluster, shift in enumerate(_shifts(before, i, now, places[column.name]).tolist()):
            if shift > 0:
                was, is_now = (each[column.name].cells[cluster].partition(" ± ")[0] for each in texts)
                shifted.setdefault(cluster, []).append((shift, f"{column.name} {is_now} ({was} before)"))
    return {cluster: [text for _, text in sorted(each, reverse=True)] for cluster, each in shifted.items()}


def _shifts(before: ClusterProfile, i: int, now: ClusterProfile, j: int) -> Tensor:
    """Return how far a column's mean, or a category's share, has moved in each cluster, in standard deviations.

    The deviation is that within both: a column that was constant before may have had few values by chance. It is 0 of
    what is no drift; comparisons with NaN, of clusters without values, are false.
    """
    levels = dict.fromkeys([*before.columns[i].categories, *now.columns[j].categories])  # without others, which differ
    k, sides = min(len(before.samples), len(now.samples)), ((before, i), (now, j))
    counts, means, variances = (
        torch.stack(parts) for parts in zip(*(_moments(*s, k, levels) for s in sides), strict=True)
    )
    spread = ((counts * variances).sum(0) / counts.sum(0)).sqrt()
    moved = (means[1] - means[0]).abs()
    has_moved = (moved >= _SHIFT * spread) & (moved >= _ERRORS * (variances / counts).sum(0).sqrt())
    return torch.where(has_moved & (spread > 0), moved / spread, 0.0).amax(1)


def _moments(profile: ClusterProfile, i: int, k: int, levels: Iterable[str]) -> tuple[Tensor, Tensor, Tensor]:
    """Return number, mean and variance of a column's values in each of `k` clusters, ``(k, 1)``, or of each level."""
    if profile.columns[i].kind != "category":
        count, total, squares = (part[:k, i, None].double() for part in (profile.filled, profile.sum, profile.squares))
        mean = total / count
        return count, mean, (squares / count - (mean - profile.around[i]) ** 2).clamp_min(0)
    counts, names = profile.counts_of(i)[:k].double(), list(profile.columns[i].categories)
    none = counts.new_zeros(k)
    count = counts.sum(1, keepdim=True)
    share = torch.stack([counts[:, names.index(level)] if level in names else none for level in levels], 1) / count
    return count.expand_as(share), share, share * (1 - share)


def _title(each: ChangedCluster) -> str:
    return f"Cluster {each.cluster}{f', {each.name}' if each.name else ''}"


# Names that users give clusters, kept in ``cluster_names.json`` and shown wherever a cluster's number is.


_LONGEST = 60
"""Letters of a name, which stands in headings of tables."""


def checked_names(names: Mapping[Any, Any], n_clusters: int, before: Mapping[int, str] | None = None) -> dict[int, str]:
    """Return the names of clusters after a change; an empty name takes one away.

    `names` are by number, of which `n_clusters` exist, and replace those of `before`. Raises FedkinError if a cluster
    does not exist, a name is no line of up to 60 letters, or two clusters would have the same.
    """
    merged = dict(before or {})
    for cluster, name in names.items():
        if isinstance(cluster, bool) or not isinstance(cluster, int | np.integer) or not 0 <= cluster < n_clusters:
            raise FedkinError(f"There is no cluster {cluster!r}; allowed: 0 to {n_clusters - 1}.")
        if not isinstance(name, str) or not name.isprintable() or len(name.strip()) > _LONGEST:
            raise FedkinError(f"The name of cluster {cluster} should be one line of at most {_LONGEST} letters.")
        merged[int(cluster)] = name.strip()
    merged = {cluster: merged[cluster] for cluster in sorted(merged) if merged[cluster]}
    if len({name.casefold() for name in merged.values()}) < len(merged):
        raise FedkinError("Two clusters would have the same name; give each its own.")
    return merged


def name_clusters(folder: Path, pairs: Sequence[str]) -> dict[int, str]:
    """Name clusters of the finished run in `folder` by texts such as ``0=frail``; an empty name takes one away.

    The page shows them. Returns all names. Raises FedkinError if the run has not finished, or a text or
    a name cannot be used; nothing is written then.
    """
    check_finished(folder)
    changes = {}
    for pair in pairs:
        number, sign, name = pair.partition("=")
        if not sign or not number.strip().isdecimal():
            raise FedkinError(f"'{pair}' is not NUMBER=NAME, such as '0=frail'.")
        changes[int(number)] = name
    with folder_lock(folder):
        names = checked_names(changes, int(load_found(folder).result["n_clusters"]), read_names(folder))
        write_names(folder, names)
    return names


def write_names(folder: Path, names: Mapping[int, str]) -> None:
    """Write the names of a run's clusters, into its page, too, if it has one yet."""
    tree = {str(cluster): name for cluster, name in names.items()}
    write_atomically(folder / CLUSTER_NAMES, json.dumps(tree, indent=2, ensure_ascii=False) + "\n")
    if (folder / REPORT).is_file():
        from fedkin.report.page import give_names

        give_names(folder / REPORT, names)


def cluster_list(folder: Path) -> list[dict[str, Any]]:
    """Return the ``cluster``, ``members`` and ``name`` of each cluster of a finished run, ``None`` if not known.

    Members are samples or clients.
    """
    saved, names, sizes = load_found(folder), read_names(folder), read_sizes(folder)
    reported = [] if saved.profile is None else saved.profile.samples.tolist()
    members = [sizes.get(cluster, 0) for cluster in range(int(saved.result["n_clusters"]))] if sizes else reported
    return [
        {"cluster": i, "members": members[i] if members else None, "name": names.get(i)}
        for i in range(int(saved.result["n_clusters"]))
    ]
