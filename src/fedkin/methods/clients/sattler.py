"""Clustered federated learning by recursive bipartition (Sattler, Müller, Samek 2020; algorithms 1 and 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Ge, Interval
from sklearn.cluster import AgglomerativeClustering
from torch import Tensor

from fedkin.core import Federation, Record
from fedkin.methods.clients.client_method import NotNegative, losses
from fedkin.methods.clients.update_splits import (
    Division,
    SplitState,
    SplitValues,
    UpdateMethod,
    Updates,
    cosine_distances,
)


@dataclass(frozen=True)
class SattlerState(SplitState):
    """State of Sattler's method: the largest update norm in any round so far, and clients' choices of cached models.

    A choice is the position in `splits` of the cached model that serves the client better than its cluster's; they are
    set at the end.
    """

    greatest_norm: float = 0.0
    choices: dict[str, int] = field(default_factory=dict)


class SattlerValues(SplitValues, total=False):
    """Values of a round, with the `norms` of each cluster's updates: of their mean, and the largest."""

    norms: dict[str, list[float]]


@dataclass(frozen=True)
class SattlerMethod(UpdateMethod):
    """Trains one model, and bipartitions a cluster whenever its model has converged but some of its clients have not.

    A cluster is cut if the norm of its mean update is below `mean_below` (epsilon 1), the greatest norm of a client's
    update is above `largest_above` (epsilon 2), it has more than two clients, it is `cooldown` rounds old, and its
    halves are dissimilar. The cut is that of complete linkage on the cosine between updates, as in the authors' code,
    tried in every cluster, every round. A cluster that is cut leaves its model in the cache; at the end every client
    chooses the model, its cluster's or one cached from the clusters it was in before, with the lowest loss on its data.

    Attributes
    ----------
    mean_below : float
        epsilon 1: a cluster is cut only if the norm of its mean update is below.
    largest_above : float
        epsilon 2: a cluster is cut only if the largest norm of an update is above.
    norms : {"relative", "absolute"}
        "relative": both are fractions, which need no tuning for every model and learning rate. Epsilon 1 is one of the
        largest norm in the cluster in this round (how far its updates cancel out), epsilon 2 one of the largest in any
        round so far (how far they are from convergence). "absolute": both are lengths, as in the paper (0.4 and 1.6
        there).
    separation : float
        A cut is made only if no two clients of different halves have updates with at least this cosine: the paper's
        criterion on gamma_max, ``sqrt((1 - gamma_max) / 2)``. At 0 the halves' updates must oppose each other, since
        noise alone brings many similar clients below `mean_below`; 1 cuts whatever the angle.
    cooldown : int
        Rounds before the first cut, and before a new cluster is cut in turn (20, and only before the first, in the code
        of OCFL's comparison).
    cache : bool
        Whether clients may go back to a cached model at the end, which takes one more exchange.
    """

    mean_below: NotNegative = 0.3
    largest_above: NotNegative = 0.2
    norms: Literal["relative", "absolute"] = "relative"
    separation: Annotated[float, Interval(ge=-1, le=1)] = 0.0
    cooldown: Annotated[int, Ge(0)] = 5
    cache: bool = True

    traits = UpdateMethod.traits.replace(
        paper={"norms": "absolute", "mean_below": 0.4, "largest_above": 1.6, "cooldown": 20}
    )
    state_type: ClassVar[type[SplitState]] = SattlerState
    record_type: ClassVar[type[Any]] = SattlerValues

    def can_split(self, state: SattlerState) -> bool:
        return True

    def step(self, fed: Federation, state: Any) -> tuple[Any, Record]:
        """Do a round as `UpdateMethod.step`; the last one also has clients choose among cached models."""
        after, record = super().step(fed, state)
        norms = [largest for _, largest in record.values.get("norms", {}).values()]
        after = replace(after, greatest_norm=max([state.greatest_norm, *norms]))
        if self.cache and after.finished and after.splits:
            choices, silent = self._best_cached(fed, after)
            after, missing = replace(after, choices=choices), record.missing | silent
            answered = [client for client in record.answered if client not in missing]
            record = replace(record, answered=answered, missing=missing)
        return after, record

    def split(self, fed: Federation, state: SattlerState, part: Updates) -> Division:
        """Bipartition the cluster if its model has converged and its clients have not."""
        weights = torch.tensor(part.weights)
        mean = float((weights @ part.compared / weights.sum()).norm())
        largest = float(part.compared.norm(dim=1).max())
        units = (largest, max(largest, state.greatest_norm)) if self.norms == "relative" else (1.0, 1.0)
        halted = mean < self.mean_below * units[0] and largest > self.largest_above * units[1]
        # A cluster's age, since noise divides a new one whose model has not settled.
        born = max((split["round"] for split in state.splits if part.cluster in split["clusters"]), default=0)
        whole = Division(None, {"norms": {str(part.cluster): [mean, largest]}})
        if not halted or state.steps - born < self.cooldown or len(part.clients) <= 2:
            return whole
        distances = cosine_distances(part.compared)
        halves = torch.tensor(bipartition(distances))
        max_similarity = float(1 - distances[halves == 0][:, halves == 1].min())
        return replace(whole, parts=halves.tolist()) if max_similarity < self.separation else whole

    def _best_cached(self, fed: Federation, state: SattlerState) -> tuple[dict[str, int], dict[int, str]]:
        """Return, by client, the split whose cached model beats its cluster's on its data, and who did not reply."""
        payloads, ancestors = {}, {}
        for client, cluster in self.known_clusters(state.labels, fed.ids).items():
            ancestors[client] = _ancestors(state.splits, cluster)
            models = [state.models[cluster], *(state.splits[index]["model"] for index in ancestors[client])]
            payloads[client] = {"module": state.module, "models": torch.stack(models)}
        choices = {}
        replies = fed.stream(losses, payloads, lambda client: {"losses": (1 + len(ancestors[client]),)})
        for client, reply in replies:
            best = int(reply["losses"].argmin())
            if best > 0:
                choices[str(client)] = ancestors[client][best - 1]
        return choices, replies.missing

    def result(self, state: SattlerState) -> dict[str, Any]:
        return {**super().result(state), "choices": state.choices}

    @staticmethod
    def model_of(result: Mapping[str, Any], client: int) -> Tensor:
        choice = result["choices"].get(str(client))
        if choice is None:
            return UpdateMethod.model_of(result, client)
        cached: Tensor = result["splits"][choice]["model"]
        return cached


def _ancestors(splits: list[dict[str, Any]], cluster: int) -> list[int]:
    """Return the positions of the splits that led to `cluster`, in order of time."""
    path = []
    for index in range(len(splits) - 1, -1, -1):
        if cluster in splits[index]["clusters"]:
            path.append(index)
            cluster = splits[index]["cluster"]
    return path[::-1]


def bipartition(distances: Tensor) -> list[int]:
    """Return the half of each client, 0 or 1: those with the smallest largest distance within a half."""
    search = AgglomerativeClustering(n_clusters=2, metric="precomputed", linkage="complete")
    return [int(label) for label in search.fit_predict(distances.numpy())]
