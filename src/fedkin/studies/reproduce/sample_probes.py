"""Probes of runs that cluster samples: local clusters before matching, unmatched ones, and scores by client."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from fedkin.clustering.metrics import clustering_accuracy
from fedkin.core import FedkinError
from fedkin.core.progress import Progress
from fedkin.data.preparing.prepare import prepare
from fedkin.engines.local import one_thread
from fedkin.experiment.run import open_federation
from fedkin.experiment.run_folder import run_config
from fedkin.studies.reproduce.finished_run import FinishedRun


def initial(folder: Path) -> dict[str, float]:
    """Return the ``accuracy`` of the clients' initial clusters, and the run's relative ``improvement`` on it.

    The initial clusters are computed again as the run made them (FedCRef, tables 6, 9 and 11). Raises FedkinError if
    the run is not one of FedCRef, or its data have no classes.
    """
    config = run_config(folder)
    if not config.method.has_local_clusters:
        raise FedkinError(f"{folder} is a run of {config.method_name}; only fedcref has first clusters.")
    with open_federation(config, folder, Progress()) as (population, fed), one_thread():
        if population.truth is None:
            raise FedkinError(f"{folder} has no classes to judge its first clusters by.")
        prepare(fed, config.data.preparing)
        config.method.init(fed)
        clients = [fed.clients[i] for i in fed.ids]
        first = mean(clustering_accuracy(population.truth[client.id], client.state["labels"]) for client in clients)
    last = [value for value in FinishedRun(folder).values("accuracy") if value is not None][-1]
    return {"accuracy": first, "improvement": (last - first) / first}


def unmatched(folder: Path) -> dict[str, float]:
    """Return the ``fraction`` of the initial local clusters that are unmatched in the end."""
    run = FinishedRun(folder)
    clusters, left = run.values("local_clusters"), run.values("unmatched")
    return {"fraction": left[-1] / clusters[0]} if clusters[0] and left[-1] is not None else {}


def within(folder: Path) -> dict[str, float]:
    """Return Cohen's kappa within each client, numbered from 1, and the ``mean``, at the end (CCFC, table 4)."""
    found = [line["metrics"]["kappas"] for line in FinishedRun(folder).records if "kappas" in line["metrics"]]
    return _by_client(found[-1]) if found else {}


def imbalance(folder: Path) -> dict[str, float]:
    """Return the imbalance ratio of each client, by client from 1 on, and the ``mean`` (CCFC, table 4).

    The ratio is that of the client's largest class to its smallest; classes that a client lacks do not count. Raises
    FedkinError if the run's data have no classes.
    """
    config = run_config(folder)
    truth = config.scenario.build(config.data_seed).truth
    if truth is None:
        raise FedkinError(f"{folder} has no classes to count.")
    counts = [classes.bincount() for classes in truth]
    return _by_client([float(own.max() / own[own > 0].min()) for own in counts])


def _by_client(values: Sequence[float]) -> dict[str, float]:
    return {**{str(client): value for client, value in enumerate(values, 1)}, "mean": mean(values)}
