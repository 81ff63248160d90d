"""Numbers of clusters that follow those of an earlier run or fit.

A row of now had a cluster before: the one that the earlier run gave it, where its id says that it is the same row, or
else the one that the earlier run's result predicts for it. Clusters of now and before with mostly the same rows have
the same number; other clusters get numbers that no cluster had.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkin.clustering.matching import corresponding
from fedkin.core import Client, FedkinError
from fedkin.core.method import CanPredict
from fedkin.core.runner import NUMBERS, in_places, predicted_clusters
from fedkin.data.population import Population
from fedkin.data.profile import BY_CLUSTER, ClusterProfile
from fedkin.experiment.cluster_names import read_names
from fedkin.experiment.outputs import label_file, load_description, load_found, read_labels, row_names
from fedkin.experiment.run_folder import LEDGER, is_finished, run_config

Labels = Mapping[str, "pd.Series[Any]"]
"""Clusters by client, each with ids of rows as its index, or their numbers."""
ORDERED = ("row", "client")
"""Names of an index of numbers, which are no ids."""


@dataclass(frozen=True)
class Numbers:
    """Numbers of clusters: `by_cluster`, int64 ``(k,)``, those of the method's own, of `count` that were ever given."""

    by_cluster: Tensor
    count: int

    def of_result(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result with these numbers, if they are not those that it has."""
        if self.count == len(self.by_cluster) and torch.equal(self.by_cluster, torch.arange(self.count)):
            return dict(result)
        return {**result, "n_clusters": self.count, NUMBERS: self.by_cluster}

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
    """What an earlier run or fit says of the clients' rows of now.

    By client, `before` are int64 ``(n,)``: the cluster that each of its rows had, -1 if nothing says it; and `known`,
    bool ``(n,)``, whether the run before had this very row. `n_clusters` numbers were ever given, `sizes` are the rows
    of each of its clusters, and `names` the names that users gave them. `profile` describes them, if it is known,
    and `result` is theirs in an update, where data are prepared as before.
    """

    before: Sequence[NDArray[np.int64]]
    known: Sequence[NDArray[np.bool_]]
    n_clusters: int
    sizes: Mapping[int, int]
    names: Mapping[int, str] = field(default_factory=dict)
    profile: ClusterProfile | None = None
    result: Mapping[str, Any] | None = None

    def numbers(self, after: Sequence[NDArray[np.int64]], method: Any, result: Mapping[str, Any]) -> Numbers:
        """Return the numbers of the clusters of a method's result; `after` are the rows' clusters now, as `before`.

        A cluster without rows has its number by what its method says has become of it, in an update.
        """
        n_clusters = int(result["n_clusters"])
        numbers = np.full(n_clusters, -1, dtype=np.int64)
        old_of, new_of = np.concatenate([*self.before]), np.concatenate([*after])
        has_both = (old_of >= 0) & (new_of >= 0)
        for old, new in corresponding(old_of[has_both], new_of[has_both]).items():
            numbers[new] = old
        before = self.result or {}
        continued = method.continued(before, result) if before else None
        for own, new in enumerate([] if continued is None else continued.tolist()):
            old = int(before[NUMBERS][own]) if NUMBERS in before else own
            if numbers[new] < 0 and old not in numbers and not ((old_of == old) | (new_of == new)).any():
                numbers[new] = old
        fresh = numbers < 0
        numbers[fresh] = self.n_clusters + np.arange(fresh.sum())
        return Numbers(torch.from_numpy(numbers), max(self.n_clusters, int(numbers.max()) + 1))


def earlier_rows(
    labels: Labels, tables: Mapping[str, pd.Index[Any] | None], rows: Mapping[str, int], in_order: bool,
    predict: Callable[[int], Tensor | None],
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.bool_]]]:  # fmt: skip
    """Return `before` and `known` of `Earlier`.

    Parameters
    ----------
    labels : dict of str to Series
        The clusters of before by client, as `read_labels` gives them.
    tables : dict of str to Index or None
        The ids of a client's rows of now, if it has some, with the name of their column.
    rows : dict of str to int
        Numbers of the clients' rows of now, in order of id.
    in_order : bool
        Whether rows without ids are those of before in the same order, where there are as many.
    predict : callable
        Predicts the clusters that a client's rows, by its position, would have had; ``None`` if that is not possible.
    """
    before, known = [], []
    for position, (client, count) in enumerate(rows.items()):
        place = np.full(count, -1)
        if (old := labels.get(client)) is not None and count:
            place = places_of(old.index, tables[client], count, in_order)
        part = np.where(place >= 0, old.to_numpy()[place] if old is not None and len(old) else -1, -1)
        if (place < 0).any() and (predicted := predict(position)) is not None:
            part = np.where(place >= 0, part, predicted.numpy())
        before.append(part.astype(np.int64))
        known.append(place >= 0)
    return before, known


def places_of(
    old: pd.Index[Any], ids: pd.Index[Any] | None, rows: int, in_order: bool
) -> NDArray[np.int64]:  # fmt: skip
    """Return where rows stood before, int64 ``(rows,)``, -1 for those that are new; by ids, or else `in_order`."""
    if ids is not None and ids.is_unique and ids.name == old.name and old.name not in ORDERED:
        return np.asarray(old.get_indexer(ids), dtype=np.int64)
    return np.arange(rows) if in_order and len(old) == rows else np.full(rows, -1)


def ids_of(client: Client, id_column: str | None) -> pd.Index[Any] | None:
    """Return the ids of a client's rows; ``None`` without a column of ids."""
    names = [*row_names(len(client), client.table, id_column).items()]
    return pd.Index(names[1][1], name=names[1][0]) if len(names) > 1 else None


def earlier_of(folder: Path, config: Any, population: Population, is_update: bool) -> Earlier:
    """Return what the run in `folder` says of the rows of `population`, whose data are not prepared yet.

    `is_update` says whether they are going to be prepared as that run's.

    Raises FedkinError if `folder` holds no finished run that clusters samples in this process, or nothing is known of
    any row: there are no common ids, and its result predicts none of these rows.
    """
    check_followed(folder)
    saved, labels, before = load_found(folder), read_labels(folder), run_config(folder)
    dealt = [(c.tables["simulation"], c.data.source, c.data_seed) for c in (before, config)]
    labels_of = [label_file(folder, client.id, population.names).stem for client in population.clients]
    column, failures = saved.preparation.encoding.schema.id, list[FedkinError]()

    def predict(position: int) -> Tensor | None:
        if not isinstance(saved.method, CanPredict):
            return None
        try:
            client = population.clients[position]
            x = saved.preparation.prepared(client.x, client.table, f"'{labels_of[position]}'", client.table)
        except FedkinError as error:  # other columns: ids may still say which rows are common
            failures.append(error)
            return None
        return predicted_clusters(saved.method, saved.result, x)

    rows = dict(zip(labels_of, map(len, population.clients), strict=True))
    tables = {name: ids_of(client, column) for name, client in zip(labels_of, population.clients, strict=True)}
    parts, known = earlier_rows(labels, tables, rows, dealt[0] == dealt[1], predict)
    if all((part < 0).all() for part in parts):
        raise failures[0] if failures else FedkinError(f"{folder} has no row in common with the data.")
    profile, _ = load_description(folder)
    sizes, names, count = sizes_of(labels), read_names(folder), int(saved.result["n_clusters"])
    return Earlier(parts, known, count, sizes, names, profile, saved.result if is_update else None)


def followed_by(folder: Path) -> list[str]:
    """Return the setting with which a run keeps the numbers of the one in `folder`; none where it cannot."""
    can = run_config(folder).method.traits.clusters == "samples" and not (folder / LEDGER).is_file()
    return [f"evaluation.like={json.dumps(str(folder), ensure_ascii=False)}"] if can else []


def check_followed(folder: Path) -> None:
    """Raise FedkinError if the run in `folder` has no clusters of rows whose numbers another run can keep."""
    config = run_config(folder)
    if not is_finished(folder):
        raise FedkinError(f"{folder} has not finished; `fedkin resume {folder}` finishes it.")
    if config.method.traits.clusters != "samples":
        raise FedkinError(
            f"{folder} has clusters of clients, whose numbers no run keeps; `fedkin diff` matches those of two runs."
        )
    if (folder / LEDGER).is_file():
        raise FedkinError(
            f"{folder} is the run of a real federation, in which each site has the clusters of its own rows; `fedkin "
            f"predict {folder} DATA` gives new rows their clusters, and `fedkin diff` compares two runs at a site."
        )


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


def sizes_of(labels: Labels) -> dict[int, int]:
    """Return the number of rows of each cluster."""
    everybody = np.concatenate([np.zeros(0, dtype=np.int64), *(each.to_numpy() for each in labels.values())])
    values, counts = np.unique(everybody[everybody >= 0], return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))
