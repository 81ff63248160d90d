"""Runs of a comparison: a method on a federation with one seed, and how far halves of the samples find it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import Any

import numpy as np
import torch

from fedkin.clustering.metrics import Labels, adjusted_rand
from fedkin.core import Client, Method, Record
from fedkin.core.runner import Callback, RecordLine, Runner, Timing, clustered, predicted_clusters, result_of
from fedkin.core.seeds import derive_generator
from fedkin.data.population import Population, short_names
from fedkin.data.preparation import prepare
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.experiment.config import Config
from fedkin.experiment.evaluation import evaluator_for
from fedkin.experiment.run import ExperimentRunner, computing, local_federation
from fedkin.secure_aggregation.sums import secure

MAX_SAMPLES = 2000  # samples whose clusters are kept: agreement of two partitions of as many is known to some 0.01


@dataclass(frozen=True)
class CellResult:
    """Result of one cell.

    `metrics` are those of the last record: agreement with the truth. `again` is the agreement (ARI) of what each half
    of the samples finds with what the other half predicts for it. `labels` are the clusters of at most `MAX_SAMPLES`
    samples, which are the same ones in all cells of a federation; -1 for none. `bytes` were sent and received in
    `steps`; `seconds` is the computing time of the method, without evaluation and halves.
    """

    metrics: dict[str, Any] = field(default_factory=dict)
    clusters: int = 0
    again: float = 0.0
    labels: list[int] = field(default_factory=list)
    bytes: int = 0
    seconds: float = 0.0
    steps: int = 0


class _CellRunner(ExperimentRunner):
    """Runner of a cell, which writes nothing; its last record is `line`, and `seconds` are those of the method."""

    def start(self) -> Any:
        self.line: RecordLine = {}
        self.seconds = 0.0
        self.populate(0)
        return super().start()

    def judge(self, state: Any, record: Record | None) -> Mapping[str, Any]:
        if record is None or not state.finished:
            return {}
        self.fed.refresh()
        evaluate = evaluator_for(self.method)
        return evaluate(self.method, self.population, self.fed, state) if evaluate else {}

    def keep(self, state: Any, timing: Timing, line: RecordLine | None) -> Any:
        self.seconds += timing["seconds"]
        self.line = line or self.line
        return state


def run_cell(config: Config, population: Population, progress: Callback) -> CellResult:
    """Run a cell on copies of the population's clients.

    The method is run on random halves of each client's samples, too, by the run's seed. Raises FedkinError if the data
    or the method's settings are refused, or the method fails on them.
    """
    clients = [replace(client, state={}) for client in population.clients]
    population = replace(population, clients=clients)
    with computing(config), one_thread():
        fed = _federation(config, clients, short_names(population.names), progress)
        fed.leave(population.away(0))
        preparation = prepare(fed, config.data.table.of(config.method), population.names)
        for i in population.absent:
            clients[i].x = preparation.of(clients[i])
        prepared = _copies(clients)
        runner = _CellRunner(config, preparation.of_tests(population), fed, preparation, progress)
        result_of(runner.method, fed, runner.steps())
        labels = _pooled(clients, clustered(fed))
        drawn = torch.randperm(len(labels), generator=derive_generator(0, "looked at"))[:MAX_SAMPLES]
        clusters = len(np.unique(labels[labels >= 0]))
        again = agreement_of_halves(config, prepared, clusters, progress)
        line = runner.line
        metrics = {name: value for name, value in line["metrics"].items() if isinstance(value, int | float | list)}
        traffic, some_labels = line["sent"] + line["received"], labels[drawn.sort().values.numpy()].tolist()
        return CellResult(metrics, clusters, again, some_labels, traffic, round(runner.seconds, 3), line["step"])


def agreement_of_halves(config: Config, clients: Sequence[Client], clusters: int, progress: Callback) -> float:
    """Return how far what one half of the samples finds is found again in the other half, in [-1, 1]; 0 by chance.

    Each client's rows are split in two at random, by the run's seed. The method, run on one half, predicts the clusters
    of the other half's rows; they are compared (adjusted Rand index) with what it finds there. The result is the mean
    of both directions; a single cluster counts 0, since it is found again anywhere. A method that finds the number of
    clusters is given the one that it found on all rows, if it takes one: half of the rows may be too few to find it.
    `clients` are prepared.
    """
    if clusters < 2:
        return 0.0
    method: Method[Any] = config.method
    if method.traits.finds_k and method.traits.takes_k:
        method = replace(method, n_clusters=clusters)  # type: ignore[type-var]
    sides: tuple[list[Client], list[Client]] = ([], [])
    for client in clients:
        rng = derive_generator(config.seed, "halves", client.id)
        # The odd row of every second client goes to the first half, so that no half has all of them.
        order, half = torch.randperm(len(client), generator=rng), len(client) // 2 + len(client) % 2 * (client.id % 2)
        for side, rows in zip(sides, (order[:half], order[half:]), strict=True):
            if len(rows):
                side.append(replace(client.rows(rows.sort().values), state=dict(client.state)))
    runs = []
    for side in sides:
        copies = _copies(side)
        fed = _federation(config, copies, (), progress)
        runner = Runner(method, fed, progress)
        runs.append((runner.method, result_of(runner.method, fed, runner.steps()), _pooled(copies, clustered(fed))))
    values = []
    for (trained, result, _), opposite, (_, _, labels) in zip(runs, reversed(sides), reversed(runs), strict=True):
        predicted = torch.cat([predicted_clusters(trained, result, client.x) for client in opposite]).numpy()
        values.append(agreement(predicted, labels))
    return mean(values)


def agreement(first: Labels, second: Labels, single: float = 0.0) -> float:
    """Return the ARI of two partitions over what has a cluster in both; 0 if either is of a single cluster.

    It is `single` if both are.
    """
    both = (first >= 0) & (second >= 0)
    first, second = first[both], second[both]
    numbers = {len(np.unique(first)), len(np.unique(second))}
    if min(numbers) < 2:
        return single if numbers == {1} else 0.0
    return adjusted_rand(first, second)


def _copies(clients: Sequence[Client]) -> list[Client]:
    return [replace(client, state=dict(client.state)) for client in clients]


def _federation(config: Config, clients: Sequence[Client], names: Sequence[str], progress: Callback) -> LocalFederation:
    least = min(config.federation.min_clients, len(clients))
    fed = local_federation(config, clients, progress, names=names, min_clients=least)
    if config.federation.secure_sums:
        secure(fed, config.method)
    return fed


def _pooled(clients: Sequence[Client], holders: Sequence[Client]) -> Labels:
    """Return the clusters of all clients' samples in order; -1 for those of clients without."""
    clusters = {client.id: client.state["clusters"].numpy() for client in holders if "clusters" in client.state}
    return np.concatenate([clusters.get(client.id, np.full(len(client), -1)) for client in clients])
