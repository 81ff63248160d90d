"""Numbers and names of clusters: numbers that follow those of an earlier run or fit, what has changed since, names.

Clients assign their rows by the earlier result, and clusters of now and before with mostly the same rows have the same
number; other clusters get numbers that no cluster had. See `fedkin.data.profile`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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
from fedkin.data.profile import BY_CLUSTER, ClusterProfile, check_encodings, count_transitions
from fedkin.experiment.run_folder import (
    CLUSTER_NAMES,
    LEDGER,
    REPORT,
    check_finished,
    load_found,
    read_names,
    read_sizes,
    run_config,
)
from fedkin.report import figures as fig
from fedkin.report.numbers import join_words


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
    prepares them, `sizes` are the rows of each cluster, and `names` those that users gave.
    """

    origin: str
    method: type[Any]
    result: Mapping[str, Any]
    encoding: Encoding
    sizes: Mapping[int, int]
    names: Mapping[int, str] = field(default_factory=dict)

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

    def ask(self, fed: Federation, n_clusters: int, least: int = MIN_MEMBERS) -> Tensor:
        """Ask clients how many rows of each cluster before are in each now, int64 ``(self.n_clusters, n_clusters)``.

        It is zeros where clients send none; a cell of fewer than `least` rows at a site is left out.
        """
        question = {
            "method": f"{self.method.__module__}:{self.method.__qualname__}", "result": dict(self.result),
            "encoding": self.encoding.tree(), "before": self.n_clusters, "after": n_clusters, "min_members": least,
        }  # fmt: skip
        shape = (self.n_clusters, n_clusters)
        sums = fed.sums().ask(count_transitions, question, {"table": shape}) if fed.present else None
        return torch.zeros(shape, dtype=torch.int64) if sums is None else sums["table"].round().long()

    def numbers(self, table: Tensor) -> Numbers:
        """Return the numbers of the clusters of a new result, by the table that `ask` returns."""
        numbers = torch.full((table.shape[1],), -1)
        for old, new in corresponding(table).items():
            numbers[new] = old
        fresh = numbers < 0
        numbers[fresh] = self.n_clusters + torch.arange(int(fresh.sum()))
        return Numbers(numbers, max(self.n_clusters, int(numbers.max()) + 1))


def earlier_of(folder: Path) -> Earlier:
    """Return what the run in `folder` has found; raise FedkinError if it has not finished, or clusters no samples."""
    check_finished(folder)
    saved = load_found(folder)
    if saved.method.traits.clusters != "samples":
        raise FedkinError(f"{folder} has clusters of clients, whose numbers no run keeps.")
    encoding, sizes = saved.preparation.encoding, read_sizes(folder, saved)
    return Earlier(str(folder), saved.method, saved.result, encoding, sizes, read_names(folder))


def followed_by(folder: Path) -> list[str]:
    """Return the setting with which a run keeps the numbers of the one in `folder`; none where it cannot."""
    method, is_real = run_config(folder).method, (folder / LEDGER).is_file()
    if method.traits.clusters != "samples" or method.is_private():
        return []
    place = folder.resolve() if is_real else folder  # for its server works elsewhere
    return [f"evaluation.like={json.dumps(str(place), ensure_ascii=False)}"]


CHANGES = "changes.json"


@dataclass(frozen=True)
class ChangedCluster:
    """One cluster before and now.

    Attributes
    ----------
    cluster : int
        Its number.
    name : str
        Its name; empty without one.
    before, now : int
        Rows in it, of the run before and of this one.
    came, left : int
        Rows of now that are in it and not by the result before, and the other way round.
    """

    cluster: int
    name: str
    before: int
    now: int
    came: int
    left: int

    @property
    def title(self) -> str:
        return f"Cluster {self.cluster}{f', {self.name}' if self.name else ''}"


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
    numbers : list of int
        The clusters' numbers, in the order in which the method found them.
    count : int
        How many numbers were ever given.
    """

    since: str
    clusters: list[ChangedCluster]
    rows: int
    moved: int
    numbers: list[int]
    count: int

    @property
    def names(self) -> dict[int, str]:
        """The names that clusters keep."""
        return {each.cluster: each.name for each in self.clusters if each.name and each.cluster in self.numbers}

    @property
    def given(self) -> Numbers:
        return Numbers(torch.tensor(self.numbers), self.count)

    def lines(self) -> list[str]:
        """Return sentences on what has changed."""
        verb = "is" if self.moved == 1 else "are"
        lines = [f"{self.moved:,} of {self.rows:,} rows {verb} in another cluster than by the result of {self.since}."]
        for text, clusters in (
            ("New", [each for each in self.clusters if each.now and not each.before]),
            ("Without rows now", [each for each in self.clusters if each.before and not each.now]),
        ):
            titles = [f"c{each.title[1:]} ({max(each.before, each.now):,})" for each in clusters]
            lines += [f"{text}: {join_words(titles, 12)}."] if titles else []
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def part(self) -> fig.PagePart:
        """Return it as a section of a run's page; it holds counts, and no row."""
        rows = []
        for each in self.clusters:
            counts = (each.before, each.now, each.came, each.left)
            rows.append((each.title, [fig.TableCell(f"{count:,}") for count in counts]))
        caption = (
            "Rows before and now; of the rows of now those that came into the cluster, which the result before puts "
            "into another one, and those that left."
        )
        table = fig.ResultTable("Before and now", caption, "cluster", ["before", "now", "came", "left"], rows)
        return fig.PagePart("changes", "What has changed", paragraphs=self.lines(), figures=[table] if rows else [])


def compared(earlier: Earlier, numbers: Numbers, table: Tensor) -> Changes:
    """Compare clusters that have `numbers` with those of the run or fit before, by the table of `Earlier.ask`."""
    moves = torch.zeros(numbers.count, numbers.count, dtype=torch.int64)
    moves[: len(table)] = numbers.placed(table, 1)
    sizes, by_earlier, same = moves.sum(0).tolist(), moves.sum(1).tolist(), moves.diagonal().tolist()
    listed = {cluster for cluster, count in enumerate(sizes) if count} | earlier.sizes.keys() | earlier.names.keys()
    clusters = [
        ChangedCluster(
            i, earlier.names.get(i, ""), earlier.sizes.get(i, 0), sizes[i], sizes[i] - same[i], by_earlier[i] - same[i]
        )
        for i in sorted(listed)
    ]
    given = numbers.by_cluster.tolist()
    return Changes(earlier.origin, clusters, sum(sizes), sum(sizes) - sum(same), given, numbers.count)


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
    saved, names = load_found(folder), read_names(folder)
    sizes = read_sizes(folder, saved)
    return [
        {"cluster": i, "members": sizes.get(i, 0) if sizes else None, "name": names.get(i)}
        for i in range(int(saved.result["n_clusters"]))
    ]
