"""Refinement of local clusters (FedCRef, Algorithm 2), by the models' errors alone."""

from __future__ import annotations

import torch
from torch import Tensor

from fedkin.core import FedkinError


def cluster_refine(
    errors: Tensor, n_clusters: int, min_fraction: float | None = None, *, renumbered: bool = False
) -> tuple[Tensor, list[int]]:
    """Refine clusters by an error matrix ``(models, n)`` (Algorithm 2): labels ``(n,)`` and the models selected.

    The paper selects the model that most samples choose, removes it with these samples, and repeats. That changes no
    other sample's choice, so the `n_clusters` most chosen models can be selected at once (ties: lowest index), and
    every sample assigned to the best of them. Models without samples are not selected. Clusters are numbered in the
    order of their models, so that ties do not move a sample.

    With `min_fraction` the number is free: all models are selected that are chosen by at least this fraction of an
    average cluster's samples, and the most chosen one in any case.

    With `renumbered` samples that chose no selected model are assigned as in the authors' code, see `_renumbered`.
    """
    wins = torch.bincount(errors.argmin(dim=0), minlength=len(errors))
    order = torch.argsort(wins, descending=True, stable=True)
    if min_fraction is None:
        selected = order[:n_clusters][wins[order[:n_clusters]] > 0]
    else:
        enough = wins[order] >= max(1.0, min_fraction * errors.shape[1] / n_clusters)
        selected = order[: max(1, int(enough.sum()))]
    by_wins, (selected, places) = selected, selected.sort()
    if renumbered:
        return places.argsort()[_renumbered(errors, by_wins)], selected.tolist()
    return errors[selected].argmin(dim=0), selected.tolist()


def _renumbered(errors: Tensor, by_wins: Tensor) -> Tensor:
    """Return labels ``(n,)``, places in `by_wins`, the selected models from the most chosen on, as the code has them.

    It repeats the choice among the selected models for the samples that are left, and numbers clusters anew by how many
    of these choose them. So a sample gets the cluster of the model that has the same rank among all samples, which is
    rarely the model that it chose.
    """
    labels = errors[by_wins].argmin(dim=0)
    left = ~torch.isin(errors.argmin(dim=0), by_wins)
    ranks = torch.bincount(labels[left], minlength=len(by_wins)).argsort(descending=True, stable=True).argsort()
    labels[left] = ranks[labels[left]]
    return labels


def held_errors(errors: Tensor, labels: Tensor, current: list[int], hold: float) -> Tensor:
    """Return errors ``(models, n)`` with those of each sample's present model reduced by the fraction `hold`.

    A sample then stays unless another model's error is lower by that fraction. `labels` ``(n,)`` are the samples' local
    clusters, and `current` the model of each of these. Raises FedkinError if a local cluster has no model.
    """
    if len(current) <= int(labels.max()) or max(current) >= len(errors):
        raise FedkinError("The models of the client's local clusters are not among those it received.")
    held = errors.clone()
    held[torch.tensor(current)[labels], torch.arange(len(labels))] *= 1 - hold
    return held
