"""Probes: measurements on a finished run's result beyond its records, stored in the run's folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from fedkin.clustering.nearest import neighbours_vote
from fedkin.core.files import read_json, write_atomically
from fedkin.core.seeds import derive_generator
from fedkin.experiment.outputs import load_found
from fedkin.experiment.run_folder import run_config
from fedkin.studies.reproduce import client_probes, latent_probes, sample_probes

Figures = dict[str, float]

_HELD_OUT = 7
_PART = 500
_NEIGHBOURS = (3, 5, 7, 9, 100, 1000, 7000)


def probed(folder: Path, name: str) -> Figures:
    """Return what the probe `name` measures on the run in `folder`; repeated calls read the stored result.

    Raises FedkinError if the run is not one for this probe.
    """
    file = _kept(folder, name)
    if not file.exists():
        write_atomically(file, json.dumps(PROBES[name](folder), sort_keys=True) + "\n")
    return read_json(file, Figures, "; remove it to measure again")


def is_probed(name: str, folder: Path) -> bool:
    """Return whether the run in `folder` has a stored result of the probe `name`."""
    return _kept(folder, name).exists()


def _kept(folder: Path, name: str) -> Path:
    return folder / f"probe-{name}.json"


def knn(folder: Path) -> Figures:
    """Return the k-nearest-neighbour accuracy in the run's representation, by number of neighbours (CCFC, table 3).

    The samples of all clients are pooled, and a seventh of them, drawn by the run's seed, is classified by the rest:
    the training and test samples of the data were mixed when they were allocated to clients. Neighbours are nearest by
    cosine.
    """
    found = load_found(folder)
    x, y, held_out = _samples(folder)
    return _by_neighbours(found.method.embed(found.result, found.preparation.prepared(x)), y, held_out)


def knn_samples(folder: Path) -> Figures:
    """Return the k-nearest-neighbour accuracy as `knn` does, among the samples themselves."""
    x, y, held_out = _samples(folder)
    return _by_neighbours(load_found(folder).preparation.prepared(x).flatten(1), y, held_out)


def _samples(folder: Path) -> tuple[Tensor, Tensor, Tensor]:
    """Return all samples, their classes, and a mask of the held-out ones."""
    config = run_config(folder)
    population = config.scenario.build(config.data_seed)
    x, y = torch.cat([client.x for client in population.clients]), torch.cat(population.truth)
    held_out = torch.zeros(len(y), dtype=torch.bool)
    held_out[torch.randperm(len(y), generator=derive_generator(config.seed, "held out"))[: len(y) // _HELD_OUT]] = True
    return x, y, held_out


def _by_neighbours(points: Tensor, y: Tensor, held_out: Tensor) -> Figures:
    scores = accuracies(points, y, held_out, _NEIGHBOURS)
    return {str(count): score for count, score in zip(_NEIGHBOURS, scores, strict=True)}


def accuracies(points: Tensor, y: Tensor, held_out: Tensor, neighbours: tuple[int, ...]) -> list[float]:
    """Return the accuracy of a majority vote of nearest neighbours on the held-out samples, by number of neighbours.

    `points` ``(n, width)`` are compared by cosine; those that are `held_out`, bool ``(n,)``, are classified by the
    others. The lowest class wins a tie.
    """
    points = torch.nn.functional.normalize(points, dim=1)
    known, classes = points[~held_out], y[~held_out]
    right = torch.zeros(len(neighbours))
    for part, truth in zip(points[held_out].split(_PART), y[held_out].split(_PART), strict=True):
        nearest = classes[(part @ known.T).topk(min(max(neighbours), len(known)), dim=1).indices]
        for at, k in enumerate(neighbours):
            voters = nearest[:, :k]
            votes = neighbours_vote(voters, torch.ones(voters.shape), int(y.max()) + 1)
            right[at] += float((votes == truth).sum())
    return [float(score) for score in right / int(held_out.sum())]


def reconstruction(folder: Path) -> Figures:
    """Return an attacker's reconstruction error by flip probability or ``none`` (embedding, table 2)."""
    from fedkin.studies.attack.attack import JSON, attack

    if not (folder / JSON).exists():
        attack(folder)
    levels = json.loads((folder / JSON).read_text(encoding="utf-8"))["reconstruction"]["levels"]
    return {"none" if level["flip"] is None else f"{level['flip']:g}": level["error"] for level in levels}


PROBES: dict[str, Callable[[Path], Figures]] = {
    "knn": knn,
    "knn-samples": knn_samples,
    "reconstruction": reconstruction,
    "all-rounds": client_probes.all_rounds,
    "flips": client_probes.flips,
    "message": client_probes.message,
    "target": client_probes.target,
    "temperature": client_probes.temperature,
    "trained": client_probes.trained,
    "imbalance": sample_probes.imbalance,
    "initial": sample_probes.initial,
    "separation": latent_probes.separation,
    "unmatched": sample_probes.unmatched,
    "within": sample_probes.within,
}
