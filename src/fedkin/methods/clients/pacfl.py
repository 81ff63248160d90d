"""PACFL: clustering clients by principal angles between subspaces of their data (Vahidian et al. 2023; algorithm 1).

A client sends the first left singular vectors of its samples, once. The angles between two clients' vectors measure
the similarity of their data; a tree of the angles is cut at a height.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any, Literal

import torch
from annotated_types import Interval
from torch import Tensor
from torch.nn.functional import normalize

from fedkin.clustering.from_distances import cut_tree
from fedkin.clustering.k_means import PAIRS
from fedkin.core import Client, Federation, Payload, client_task
from fedkin.core.federation import Replies
from fedkin.core.payload import MAX_CLASSES, Array, counts_to, one_of
from fedkin.methods.clients.client_method import UNKNOWN
from fedkin.methods.clients.local_work import singular_vectors
from fedkin.methods.clients.one_shot import OneShotMethod, OneShotState, distances_to_clusters

MAX_VECTORS = 1024
Angle = Literal["mean", "smallest"]


@dataclass(frozen=True)
class PACFLMethod(OneShotMethod):
    """Clusters clients once by the angles between the subspaces of their data, then averages per cluster.

    Attributes
    ----------
    bases : {"class", "client"}
        Whether vectors are those of each class by itself and compared class by class, which also separates clients
        with swapped labels (the authors' code takes them by class, too, but compares them whatever their class); or of
        all samples together, as in algorithm 1, for which an unseen client needs no labels.
    vectors : int
        p, the number of singular vectors of each class or client. The paper takes 3 to 5 and a threshold for each data
        set; with few samples all but the first are noise, and with one vector a threshold serves more data sets.
    angle : {"mean", "smallest"}
        Distance of two clients, in degrees: the mean angle between vectors of equal index (equation 3), over those that
        both clients have; or the smallest principal angle between the subspaces (equation 2).
    threshold : float or "auto"
        beta: clusters at a greater angle stay separate, in degrees. 30 was chosen on images; tables need a greater one.
        "auto" cuts where the gap between heights of the tree is widest, which always separates at least two clusters.
    """

    bases: Literal["class", "client"] = "class"
    vectors: Annotated[int, Interval(ge=1, le=MAX_VECTORS)] = 1
    angle: Angle = "mean"
    threshold: Annotated[float, Interval(gt=0, lt=90)] | Literal["auto"] = 30.0

    traits = OneShotMethod.traits.replace(
        cost="cheap", paper={"bases": "client", "vectors": 3, "angle": "smallest", "threshold": "auto"}
    )

    def messages(self, fed: Federation, state: OneShotState, clients: Sequence[int]) -> Replies[Tensor]:
        how = self.how(state)
        length = how["segments"] * self.vectors * math.prod(state.module["shape"])
        replies = fed.ask(describe_subspace, dict.fromkeys(clients, how), {"vectors": (length,)})
        return replies.map(itemgetter("vectors"))

    def clustered(self, fed: Federation, state: OneShotState, messages: Tensor) -> tuple[Tensor, dict[str, Any]]:
        angles = angles_between(sets_of(messages, self.how(state)), self.angle)
        labels = cut_tree(angles, "average", None if self.threshold == "auto" else self.threshold)
        return labels, {"mode": "principal angles"}

    @staticmethod
    def nearest(result: Mapping[str, Any], messages: Tensor) -> Tensor:
        placed = result["labels"] != UNKNOWN
        sets, others = (sets_of(rows, result) for rows in (messages, result["messages"][placed]))
        angles = angles_between(sets, result["angle"], others)
        return distances_to_clusters(angles, result["labels"][placed], len(result["models"])).argmin(1)

    @staticmethod
    def unseen_message(client: Client, result: Mapping[str, Any]) -> Tensor:
        return vectors_of(client, result)

    def result(self, state: OneShotState) -> dict[str, Any]:
        result = super().result(state) | {"angle": self.angle, "messages": state.messages}
        del result["centroids"]  # a mean of subspaces is not a subspace
        return result

    @staticmethod
    def assigns_by_labels(result: Mapping[str, Any]) -> bool:
        return bool(result["bases"] == "class")

    def how(self, state: OneShotState) -> dict[str, Any]:
        segments = state.module["classes"] if self.bases == "class" else 1
        return {"bases": self.bases, "count": self.vectors, "segments": segments}


@client_task(
    takes={
        "bases": one_of("class", "client"), "count": counts_to(MAX_VECTORS), "segments": counts_to(MAX_CLASSES),
    },
    holds={"vectors": Array((None,), minimum=-1.001, maximum=1.001)},
    sends="In which directions the rows of each class, or all, differ most",
)  # fmt: skip
def describe_subspace(client: Client, payload: Payload) -> Payload:
    """Report the first singular ``vectors`` of each class or of all samples, padded with zeros."""
    return {"vectors": vectors_of(client, payload)}


def vectors_of(client: Client, how: Mapping[str, Any]) -> Tensor:
    """Return a client's message: the vectors of all segments, one after another."""
    return singular_vectors(client, how["segments"], how["count"], by_class=how["bases"] == "class").flatten()


def sets_of(messages: Tensor, how: Mapping[str, Any]) -> Tensor:
    """Return the vectors ``(m, segments * count, features)`` of messages ``(m, d)``."""
    return messages.view(len(messages), how["segments"] * how["count"], -1)


# Principal angles between subspaces, each given by a few vectors.


def angles_between(sets: Tensor, angle: Angle, others: Tensor | None = None) -> Tensor:
    """Compute angles between sets of vectors, in degrees: principal angles, or those of corresponding vectors.

    `sets` ``(n, k, features)`` are k vectors each, some of them zero; the others are normalised to length 1. "mean" is
    the mean of the angles between vectors of the same place, where both sets have one, "smallest" the smallest
    principal angle between the spans. `others` are ``(m, k, features)``, by default `sets`. Angles are float64 ``(n,
    m)``, from 0 to 90; 90 where two sets have no vector in common. Without `others` the diagonal is zero.
    """
    one = normalize(sets.double(), dim=2)
    other = one if others is None else normalize(others.double(), dim=2)
    angles_of = _mean_angles if angle == "mean" else _smallest_angles
    found = torch.cat([angles_of(part, other) for part in one.split(max(1, PAIRS // max(1, len(other))))])
    return (found + found.T).fill_diagonal_(0.0).div_(2) if others is None else found


def _mean_angles(one: Tensor, other: Tensor) -> Tensor:
    total = torch.zeros(len(one), len(other), dtype=torch.float64)
    count = torch.zeros_like(total)
    for place in range(one.shape[1]):
        first, second = one[:, place], other[:, place]
        both = first.any(1)[:, None] & second.any(1)
        total += torch.where(both, _degrees(first @ second.T), 0.0)
        count += both
    return torch.where(count > 0, total / count.clamp_min(1), 90.0)


def _smallest_angles(one: Tensor, other: Tensor) -> Tensor:
    first, second = _orthonormal(one), _orthonormal(other)
    rows = [torch.linalg.matrix_norm(each @ second.mT, ord=2) for each in first]  # largest singular values
    return _degrees(torch.stack(rows))


def _orthonormal(sets: Tensor) -> Tensor:
    """Return an orthonormal basis of each set's span, ``(n, k, features)``; dependent rows are zeros."""
    _, values, vectors = torch.linalg.svd(sets, full_matrices=False)
    kept: Tensor = values > 1e-6 * values[:, :1].clamp_min(1e-6)  # the rest is rounding
    return torch.where(kept[:, :, None], vectors, 0.0)


def _degrees(cosines: Tensor) -> Tensor:
    return torch.rad2deg(cosines.abs().clamp(max=1.0).arccos())
