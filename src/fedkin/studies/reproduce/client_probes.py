"""Probes of runs that cluster clients: cost of messages, OCFL's temperature, and scores over all rounds."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from fedkin.clustering.k_means import k_means
from fedkin.clustering.metrics import adjusted_rand
from fedkin.core import Client, FedkinError
from fedkin.core.seeds import derive_generator
from fedkin.experiment.config import Config
from fedkin.experiment.measure_titles import TRAINING, phase_of
from fedkin.experiment.outputs import load_found
from fedkin.experiment.run_folder import run_config
from fedkin.methods.clients.one_shot.tree_cuts import Mode, cluster
from fedkin.privacy.randomised_response import flipped
from fedkin.studies.costs import CostTarget, costs_of
from fedkin.studies.reproduce.finished_run import FinishedRun

RATES = tuple(at / 20 for at in range(11))
"""Probabilities of a flip of the embedding paper's figure 4."""

_SCORES = ("ari", "ami", "homogeneity", "completeness")
_PAIR = 2


def all_rounds(folder: Path) -> dict[str, float]:
    """Return mean clustering scores over all allowed rounds of a run that ended when clusters formed (OCFL, table 1).

    The clusters are final then, so the skipped rounds count with the scores of the last one.
    """
    run, method = FinishedRun(folder), _method(folder)
    means = {}
    for name in _SCORES:
        values = [value or 0.0 for value in run.values(name)]
        means[name] = mean([*values, *[values[-1]] * (method.rounds - len(values))])
    return means


def temperature(folder: Path) -> dict[str, float]:
    """Return OCFL's temperature (figure 3): ``first``, ``lowest``, and at the ``rise`` that formed clusters.

    The ``drop`` is the difference of the first and the lowest. Raises FedkinError if the run has no temperature.
    """
    values = [value for value in FinishedRun(folder).values("temperature") if value is not None]
    if not values:
        raise FedkinError(f"{folder} has no temperature; give a run of 'ocfl'.")
    return {"first": values[0], "lowest": min(values), "rise": values[-1], "drop": values[0] - min(values)}


def target(folder: Path) -> dict[str, float]:
    """Return the cost of reaching the target of the run's own experiment: ``rounds``, ``mb``, ``client_seconds``.

    ``rounds`` are those of training. Empty if the run never reached the target. Raises FedkinError if the experiment
    has no target.
    """
    wanted = run_config(folder).target
    if wanted.metric is None or wanted.reach is None:
        raise FedkinError(f"{folder} has no target to measure what it took; set 'target.metric' and 'target.reach'.")
    (costs,) = costs_of([folder], CostTarget(wanted.metric, wanted.reach))
    if costs.rounds is None:
        return {}
    seconds = costs.total.client_seconds
    figures = {"rounds": float(costs.rounds), "mb": costs.total.both / 1e6}
    return figures if seconds is None else figures | {"client_seconds": seconds}


def trained(folder: Path) -> dict[str, float]:
    """Return the personal accuracy at the last evaluation, by number of training rounds (other phases do not count)."""
    figures: dict[str, float] = {}
    last = None
    rounds = [line for line in FinishedRun(folder).records if phase_of(line) == TRAINING]
    for count, line in enumerate(rounds, 1):
        last = line["metrics"].get("personal_accuracy", last)
        if last is not None:
            figures[str(count)] = last
    return figures


def message(folder: Path) -> dict[str, float]:
    """Return the client seconds of one message and of one epoch of a client's training, and their ratio.

    Keys are ``message``, ``epoch`` and ``ratio`` (embedding, figure 6). Raises FedkinError if clients send no messages
    in the run, or train by steps rather than epochs.
    """
    run, method = FinishedRun(folder), _method(folder)
    seconds = {line["step"]: line["client_seconds"] for line in run.timing}
    each: dict[str, list[float]] = {}
    for line in run.records:
        each.setdefault(phase_of(line), []).append(seconds[line["step"]] / len(line["answered"]))
    if "embedding" not in each or method.local_steps is not None:
        raise FedkinError(f"{folder} is no run in which clients send a message and then train for some epochs.")
    one, epoch = mean(each["embedding"]), mean(each[TRAINING]) / method.local_epochs
    return {"message": one, "epoch": epoch, "ratio": epoch / one}


def flips(folder: Path) -> dict[str, float]:
    """Return the ARI and number of clusters by clustering algorithm and flip probability (embedding, figure 4).

    The run, of a scenario with hidden clusters, has an encoder that makes the clients' bits, which are flipped anew for
    every probability. ``exact@0.1`` is the ARI of the method's own algorithm, ``bayes@0.1`` that of the published
    search where clusters may have two clients, as in the authors' study, and ``given@0.1`` that of k-means given the
    number of clusters; ``exact-clusters@0.1`` is their number. Raises FedkinError if the run is not one of `embedding`
    in a scenario with hidden clusters.
    """
    config = run_config(folder)
    bits, truth = _clean_bits(folder, config)
    min_size = _method(folder).smallest(len(bits))
    figures: dict[str, float] = {}
    for at, rate in enumerate(RATES):
        rng = derive_generator(config.seed, "flips", at)
        points = torch.stack([flipped(own, rate, rng) for own in bits]).flatten(1)
        for name, labels in _clusterings(points, rate, min_size, len(truth.unique()), config.seed, at).items():
            figures[f"{name}@{rate:g}"] = adjusted_rand(truth.numpy(), labels.numpy())
            figures[f"{name}-clusters@{rate:g}"] = float(len(labels.unique()))
    return figures


def _method(folder: Path) -> Any:
    """Return the run's method, whose type each probe knows."""
    return run_config(folder).method


def _clean_bits(folder: Path, config: Config) -> tuple[list[Tensor], Tensor]:
    """Return each client's bits ``(segments, width)`` before flipping, and the hidden clusters ``(clients,)``."""
    found = load_found(folder)
    population = config.scenario.build(config.data_seed)
    if not found.method.sends_bits or "flip" not in found.result or population.clusters is None:
        raise FedkinError(
            f"{folder} is no run of 'embedding' on clients of hidden clusters, so it has no bits to flip."
        )
    bits = []
    for client in population.clients:
        rng = derive_generator(config.seed, "filling", client.id)
        asked = Client.unseen(found.preparation.of(client), client.y, rng)
        bits.append(found.method.true_bits(asked, found.result))
    return bits, population.clusters


def _clusterings(points: Tensor, rate: float, min_size: int, clusters: int, seed: int, at: int) -> dict[str, Tensor]:
    """Cluster the points by each algorithm, and return their labels by the algorithm's name."""

    def cut(mode: Mode, smallest: int, **more: Any) -> Tensor:
        return cluster(points, mode, smallest, derive_generator(seed, "grouping", at), **more).labels

    return {
        "exact": cut("exact", min_size, flips=rate),
        "bayes": cut("bayes", _PAIR),
        "given": k_means(points.double(), clusters, derive_generator(seed, "told", at)).labels,
    }
