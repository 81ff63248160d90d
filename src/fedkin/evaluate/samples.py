"""Judging groups of samples: FedCRef's local clusters, their associations, and the groups made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from fedkin.data.population import Population
from fedkin.engines.local import LocalFederation
from fedkin.methods.federated_clustering.fedcref import FedCRef, FedCRefState
from fedkin.metrics import (
    adjusted_rand,
    clustering_accuracy,
    match_labels,
    normalized_mutual_information,
    pooled,
)


def evaluate_fedcref(
    method: FedCRef, population: Population, fed: LocalFederation, state: FedCRefState
) -> dict[str, Any]:
    """FedCRef's metrics (section 5.5), and agreement of the groups over all sites.

    Returns
    -------
    dict
        ``accuracy``: ACC of the local clusters, mean over the sites that have begun, resting ones included; absent if
        none has. ``wrong``: share of associations between clusters whose matched classes differ. ``ari``, ``nmi``: of
        the groups of all samples whose site is known. ``target``: number of classes that two or more sites hold.
        Empty without a truth.
    """
    if population.truth is None:
        return {}
    truth = population.truth
    sites = [fed.clients[i] for i in fed.ids if "labels" in fed.clients[i].state]
    accuracy = [clustering_accuracy(truth[c.id], c.state["labels"]) for c in sites]
    classes: dict[int, list[int]] = {}
    for site in {node[0] for node in state.nodes}:
        own = fed.clients[site].state
        # A site keeps its clusters' models until it refines them; the graph is that of the partition before.
        classes[site] = classes_of(truth[site], own["labels"] if "models" in own else own["previous"])
    ends = [[classes[site][cluster] for site, cluster in (state.nodes[a], state.nodes[b])] for a, b in state.edges]
    known = sorted(int(site) for site in state.groups)
    groups = [np.array(state.groups[str(i)])[fed.clients[i].state["labels"].numpy()] for i in known]
    held = [np.unique(y.numpy()) for y in truth]
    _, holders = np.unique(np.concatenate(held), return_counts=True)
    return {
        **({"accuracy": float(np.mean(accuracy))} if accuracy else {}),
        "wrong": float(np.mean([first != second for first, second in ends])) if ends else 0.0,
        "target": int((holders > 1).sum()),
        **_agreement([truth[i] for i in known], groups),
    }


def _agreement(truth: Sequence[Tensor], groups: Sequence[Any]) -> dict[str, float]:
    if not groups:
        return {}
    true, found = pooled(truth), pooled(groups)
    return {"ari": adjusted_rand(true, found), "nmi": normalized_mutual_information(true, found)}


def classes_of(truth: Tensor, labels: Tensor) -> list[int]:
    """The class that each of a site's local clusters stands for, in order of cluster."""
    match = match_labels(truth, labels)
    return [match[cluster] for cluster in sorted(match)]
