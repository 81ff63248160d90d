"""What is measured on a finished run's result instead of being read off its records; kept in the run's folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from fedkin.clustering.nearest import neighbours_vote
from fedkin.core.files import write_atomically
from fedkin.core.seeds import derive_generator
from fedkin.experiment.config import load_config
from fedkin.experiment.outputs import load_found
from fedkin.experiment.run import CONFIG
from fedkin.studies.reproduce import client_probes, sample_probes

Figures = dict[str, float]

_HELD_OUT = 7
_PART = 500
_NEIGHBOURS = (3, 5, 7, 9, 100, 1000, 7000)


def probed(folder: Path, name: str) -> Figures:
    """What the probe `name` finds of the run in `folder`; the second time it is read from the run's folder.

    Raises
    ------
    FedkinError
        If the run is not one for this probe.
    """
    file = _kept(folder, name)
    if not file.exists():
        write_atomically(file, json.dumps(PROBES[name](folder), sort_keys=True) + "\n")
    figures: Figures = json.loads(file.read_text())
    return figures


def has_looked(name: str, folder: Path) -> bool:
    """Whether the probe `name` has looked at the run in `folder`."""
    return _kept(folder, name).exists()


def _kept(folder: Path, name: str) -> Path:
    return folder / f"probe-{name}.json"


def knn(folder: Path) -> Figures:
    """How well the majority of nearest neighbours tells classes in the run's representation (CCFC, table 3).

    Clients' samples are pooled, and a seventh of them, drawn by the run's seed, is judged by the rest: the training and
    test samples of the data were mixed when clients got theirs. Figures are shares by number of neighbours, by cosine.
    """
    found = load_found(folder)
    x, y, held_out = _judged(folder)
    return _by_neighbours(found.method.embed(found.result, found.scaling.apply(x)), y, held_out)


def knn_samples(folder: Path) -> Figures:
    """The same by the samples as they are."""
    x, y, held_out = _judged(folder)
    return _by_neighbours(load_found(folder).scaling.apply(x).flatten(1), y, held_out)


def _judged(folder: Path) -> tuple[Tensor, Tensor, Tensor]:
    """All samples, their classes, and who is held out."""
    config = load_config(folder / CONFIG)
    population = config.scenario.build(config.data_seed)
    x, y = torch.cat([client.x for client in population.clients]), torch.cat(population.truth)
    held_out = torch.zeros(len(y), dtype=torch.bool)
    held_out[torch.randperm(len(y), generator=derive_generator(config.seed, "held out"))[: len(y) // _HELD_OUT]] = True
    return x, y, held_out


def _by_neighbours(points: Tensor, y: Tensor, held_out: Tensor) -> Figures:
    shares = accuracies(points, y, held_out, _NEIGHBOURS)
    return {str(count): share for count, share in zip(_NEIGHBOURS, shares, strict=True)}


def accuracies(points: Tensor, y: Tensor, held_out: Tensor, neighbours: tuple[int, ...]) -> list[float]:
    """Share of the samples held out that the majority of their neighbours is right about.

    Parameters
    ----------
    points : Tensor
        float32 ``(n, width)``; compared by cosine.
    y : Tensor
        int64 ``(n,)``.
    held_out : Tensor
        bool ``(n,)``, who is judged; the others are the neighbours.
    neighbours : tuple of int
        How many; more than there are count as all. The lowest class wins a tie.
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
    return [float(share) for share in right / int(held_out.sum())]


def reconstruction(folder: Path) -> Figures:
    """Error of what an attacker makes of single codes, by flip rate or ``none`` (embedding, table 2)."""
    from fedkin.studies.attack.attack import JSON, attack

    if not (folder / JSON).exists():
        attack(folder)
    levels = json.loads((folder / JSON).read_text())["reconstruction"]["levels"]
    return {"none" if level["flip"] is None else f"{level['flip']:g}": level["error"] for level in levels}


PROBES: dict[str, Callable[[Path], Figures]] = {
    "knn": knn,
    "knn-samples": knn_samples,
    "reconstruction": reconstruction,
    "flips": client_probes.flips,
    "held": client_probes.held,
    "message": client_probes.message,
    "target": client_probes.target,
    "temperature": client_probes.temperature,
    "trained": client_probes.trained,
    "alone": sample_probes.alone,
    "imbalance": sample_probes.imbalance,
    "initial": sample_probes.initial,
    "within": sample_probes.within,
}
