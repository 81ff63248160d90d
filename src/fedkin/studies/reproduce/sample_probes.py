"""What is measured on finished runs of methods that cluster samples: where they began, and what single clients hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from fedkin.clustering.metrics import clustering_accuracy
from fedkin.core import FedkinError
from fedkin.data.preparing.scaling import scale
from fedkin.engines.local import one_thread
from fedkin.experiment.config import load_config
from fedkin.experiment.opening import world_of
from fedkin.experiment.run import CONFIG, Progress
from fedkin.methods.samples.fedcref.fedcref import FedCRefMethod
from fedkin.studies.reproduce.measures import Finished


def initial(folder: Path) -> dict[str, float]:
    """``accuracy`` of the clients' first clusters, made again as the run made them, and how much the run improved on it.

    ``improvement`` is a share of the first accuracy (FedCRef, tables 6, 9 and 11).

    Raises
    ------
    FedkinError
        If the run is not one of FedCRef, or its data have no classes.
    """
    config = load_config(folder / CONFIG)
    if not isinstance(config.method, FedCRefMethod):
        raise FedkinError(f"{folder} is a run of {config.method_name}; only fedcref has first clusters to judge.")
    with world_of(config, folder, Progress()) as (population, fed), one_thread():
        if population.truth is None:
            raise FedkinError(f"{folder} has no classes to judge its first clusters by.")
        scale(fed, config.data.scaling)
        config.method.init(fed)
        sites = [fed.clients[i] for i in fed.ids]
        first = mean(clustering_accuracy(population.truth[site.id], site.state["labels"]) for site in sites)
    last = [value for value in Finished(folder).values("accuracy") if value is not None][-1]
    return {"accuracy": first, "improvement": (last - first) / first}


def alone(folder: Path) -> dict[str, float]:
    """``share`` of the clusters that clients began with which are without kin in the end."""
    run = Finished(folder)
    clusters, unmatched = run.values("local_clusters"), run.values("unmatched")
    return {"share": unmatched[-1] / clusters[0]} if clusters[0] and unmatched[-1] is not None else {}


def within(folder: Path) -> dict[str, float]:
    """Kappa within each client, by its place from 1 on, and their ``mean``, of the last that is told (CCFC, table 4)."""
    found = [line["metrics"]["kappas"] for line in Finished(folder).records if "kappas" in line["metrics"]]
    return _by_client(found[-1]) if found else {}


def imbalance(folder: Path) -> dict[str, float]:
    """Samples of a client's largest class over those of its smallest, by its place from 1 on, and the ``mean``.

    The imbalance ratio of CCFC's table 4; classes that a client lacks do not count.

    Raises
    ------
    FedkinError
        If the run's data have no classes.
    """
    config = load_config(folder / CONFIG)
    truth = config.scenario.build(config.data_seed).truth
    if truth is None:
        raise FedkinError(f"{folder} has no classes to count.")
    counts = [classes.bincount() for classes in truth]
    return _by_client([float(own.max() / own[own > 0].min()) for own in counts])


def _by_client(values: Sequence[float]) -> dict[str, float]:
    return {**{str(site): value for site, value in enumerate(values, 1)}, "mean": mean(values)}
