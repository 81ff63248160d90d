"""What is measured on finished runs of methods that cluster clients: messages, their cost, and clusters held to the end."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

import torch
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits
from torch import Tensor

from fedkin.clustering.metrics import adjusted_rand
from fedkin.core import Client, FedkinError
from fedkin.core.seeds import derive_generator, draw_seed
from fedkin.experiment.config import Config, load_config
from fedkin.experiment.outputs import load_found
from fedkin.experiment.run import CONFIG
from fedkin.experiment.words import TRAINING, phase_of
from fedkin.methods.clients.embedding.embedding import EmbeddingMethod
from fedkin.methods.clients.embedding.embedding_tasks import true_bits
from fedkin.methods.clients.one_shot.tree_cuts import Mode, cluster
from fedkin.privacy.randomised_response import flipped
from fedkin.studies.costs import CostTarget, costs_of
from fedkin.studies.reproduce.measures import Finished

RATES = tuple(at / 20 for at in range(11))
"""Probabilities of a flip of the embedding paper's figure 4."""

_AGREEMENT = ("ari", "ami", "homogeneity", "completeness")
_PAIR = 2


def held(folder: Path) -> dict[str, float]:
    """Mean agreement over all rounds that a run may have, where it ended when its clusters were formed (OCFL, table 1).

    Its clusters are final: the rounds that it was spared have the agreement of its last.
    """
    run, method = Finished(folder), _method(folder)
    means = {}
    for name in _AGREEMENT:
        values = [value or 0.0 for value in run.values(name)]
        means[name] = mean([*values, *[values[-1]] * (method.rounds - len(values))])
    return means


def temperature(folder: Path) -> dict[str, float]:
    """OCFL's temperature in the ``first`` round, the ``lowest``, and at the ``rise`` that made the clusters (figure 3).

    The ``drop`` is how far it fell from the first round to the lowest.

    Raises
    ------
    FedkinError
        If the run has no temperature.
    """
    values = [value for value in Finished(folder).values("temperature") if value is not None]
    if not values:
        raise FedkinError(f"{folder} has no temperature; give a run of 'ocfl'.")
    return {"first": values[0], "lowest": min(values), "rise": values[-1], "drop": values[0] - min(values)}


def target(folder: Path) -> dict[str, float]:
    """What it took to reach the target of the run's own experiment: ``rounds`` of training, ``mb``, ``client_seconds``.

    Empty if it never did.

    Raises
    ------
    FedkinError
        If the experiment has no target.
    """
    wanted = load_config(folder / CONFIG).target
    if wanted.metric is None or wanted.reach is None:
        raise FedkinError(f"{folder} has no target to measure what it took; set 'target.metric' and 'target.reach'.")
    (costs,) = costs_of([folder], CostTarget(wanted.metric, wanted.reach))
    if costs.rounds is None:
        return {}
    seconds = costs.total.client_seconds
    told = {"rounds": float(costs.rounds), "mb": costs.total.both / 1e6}
    return told if seconds is None else told | {"client_seconds": seconds}


def trained(folder: Path) -> dict[str, float]:
    """Personal accuracy by number of rounds of training, whatever came before them: that of the last evaluation."""
    figures: dict[str, float] = {}
    last = None
    rounds = [line for line in Finished(folder).records if phase_of(line) == TRAINING]
    for count, line in enumerate(rounds, 1):
        last = line["metrics"].get("personal_accuracy", last)
        if last is not None:
            figures[str(count)] = last
    return figures


def message(folder: Path) -> dict[str, float]:
    """Client seconds of making one message and of one client's epoch of training, and how many messages the latter is.

    Keys are ``message``, ``epoch`` and ``ratio`` (embedding, figure 6).

    Raises
    ------
    FedkinError
        If clients send no messages in the run, or train by steps rather than epochs.
    """
    run, method = Finished(folder), _method(folder)
    seconds = {line["step"]: line["client_seconds"] for line in run.timing}
    each: dict[str, list[float]] = {}
    for line in run.records:
        each.setdefault(phase_of(line), []).append(seconds[line["step"]] / len(line["answered"]))
    if "embedding" not in each or method.local_steps is not None:
        raise FedkinError(f"{folder} is no run in which clients send a message and then train for some epochs.")
    one, epoch = mean(each["embedding"]), mean(each[TRAINING]) / method.local_epochs
    return {"message": one, "epoch": epoch, "ratio": epoch / one}


def flips(folder: Path) -> dict[str, float]:
    """Agreement of the clusters with the hidden ones by way of clustering and probability of a flip (embedding, figure 4).

    The clients' bits are those that the run's encoder makes, flipped anew for every probability. ``exact@0.1`` is the
    ARI of the method's own way, ``bayes@0.1`` that of the published search where clusters may have two clients, as in the
    authors' study, and ``told@0.1`` that of k-means that is told how many clusters there are; ``exact-clusters@0.1`` is how
    many clusters were found.

    Raises
    ------
    FedkinError
        If the run is not one of `embedding` in a scenario with hidden clusters.
    """
    config = load_config(folder / CONFIG)
    bits, truth = _clean_bits(folder, config)
    least = _method(folder).smallest(len(bits))
    figures: dict[str, float] = {}
    for at, rate in enumerate(RATES):
        rng = derive_generator(config.seed, "flips", at)
        points = torch.stack([flipped(own, rate, rng) for own in bits]).flatten(1)
        for name, labels in _ways(points, rate, least, len(truth.unique()), config.seed, at).items():
            figures[f"{name}@{rate:g}"] = adjusted_rand(truth.numpy(), labels.numpy())
            figures[f"{name}-clusters@{rate:g}"] = float(len(labels.unique()))
    return figures


def _method(folder: Path) -> Any:
    """The run's method; the probe knows which it is."""
    return load_config(folder / CONFIG).method


def _clean_bits(folder: Path, config: Config) -> tuple[list[Tensor], Tensor]:
    """Every client's bits ``(segments, width)`` before any is flipped, and the hidden clusters ``(clients,)``."""
    found = load_found(folder)
    population = config.scenario.build(config.data_seed)
    if not isinstance(config.method, EmbeddingMethod) or population.clusters is None:
        raise FedkinError(
            f"{folder} is no run of 'embedding' on clients of hidden clusters, so it has no bits to flip."
        )
    bits = []
    for client in population.clients:
        rng = derive_generator(config.seed, "filling", client.id)
        asked = Client.newcomer(found.scaling.apply(client.x), client.y, rng)
        bits.append(true_bits(asked, found.result)[0])
    return bits, population.clusters


def _ways(points: Tensor, rate: float, least: int, clusters: int, seed: int, at: int) -> dict[str, Tensor]:
    """Labels by way of clustering."""

    def cut(mode: Mode, smallest: int, **more: Any) -> Tensor:
        return cluster(points, mode, smallest, derive_generator(seed, "clustering", at), **more).labels

    drawn = draw_seed(derive_generator(seed, "told", at))
    with threadpool_limits(1, user_api="openmp"):  # sums over several threads depend on which is first
        told = KMeans(clusters, n_init=10, random_state=drawn).fit_predict(points.double().numpy())
    return {
        "exact": cut("exact", least, flips=rate),
        "bayes": cut("bayes", _PAIR),
        "told": torch.from_numpy(told).long(),
    }
