"""Numbers of clusters that follow those of an earlier run or fit.

Clients assign their rows by the earlier result, and clusters of now and before with mostly the same rows have the same
number; other clusters get numbers that no cluster had. See `fedkin.data.transitions`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedkin.clustering.matching import corresponding_in
from fedkin.core import Federation, FedkinError
from fedkin.core.method import CanPredict
from fedkin.core.runner import NUMBERS, in_places
from fedkin.data.encoding import Encoding
from fedkin.data.options import MIN_MEMBERS
from fedkin.data.profile import BY_CLUSTER, EARLIER, ClusterProfile, profile_clusters
from fedkin.data.transitions import ask_transitions, check_encodings
from fedkin.experiment.run_folder import (
    LEDGER,
    is_finished,
    load_found,
    read_labels,
    read_names,
    run_config,
)


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
        table = ask_transitions(fed, question) if fed.present else None
        if table is None:
            return torch.zeros(self.n_clusters, n_clusters, dtype=torch.int64), None
        is_described = self.profile is not None
        how = (self.encoding, self.n_clusters, least, EARLIER, new)
        return table, profile_clusters(fed, *how) if is_described else None

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
        for old, new in corresponding_in(table).items():
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
    if not is_finished(folder):
        raise FedkinError(f"{folder} has not finished; `fedkin resume {folder}` finishes it.")
    saved = load_found(folder)
    if saved.method.traits.clusters != "samples":
        raise FedkinError(
            f"{folder} has clusters of clients, whose numbers no run keeps; `fedkin diff` matches those of two runs."
        )
    reported = {} if saved.profile is None else dict(enumerate(saved.profile.samples.tolist()))
    sizes = {cluster: size for cluster, size in (sizes_of(read_labels(folder)) or reported).items() if size}
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


def sizes_of(labels: Mapping[str, pd.Series[Any]]) -> dict[int, int]:
    """Return the number of rows of each cluster."""
    everybody = np.concatenate([np.zeros(0, dtype=np.int64), *(each.to_numpy() for each in labels.values())])
    values, counts = np.unique(everybody[everybody >= 0], return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))
