"""Measures of a finished run, named by a number and the moment at which it is read.

``NAME`` is a number of the records, or one of `COSTS`. ``NAME@WHEN`` is its value in the ``first`` or the ``last``
record that has it (the default), at a step (``accuracy@5``: the last at or before it), its ``mean`` over all steps (0
where it is absent, as the ARI is before there are clusters), or ``last5``: the mean of its last five.
``rounds_to:NAME=VALUE`` are the rounds of training until a value is reached. ``PROBE/KEY`` is measured on the result of
the run, see `PROBES`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from statistics import mean
from typing import Any

import pandas as pd
import torch
from sklearn.neighbors import NearestNeighbors

from fedkin.clustering.k_means import k_means
from fedkin.clustering.metrics import adjusted_rand, clustering_accuracy
from fedkin.clustering.tree_cuts import cluster
from fedkin.core import Client, FedkinError
from fedkin.core.files import read_json, write_atomically
from fedkin.core.method import LinksLocalClusters, SendsBits
from fedkin.core.runner import Progress, RecordLine, Timing
from fedkin.core.seeds import derive_generator
from fedkin.data.preparation import prepare
from fedkin.engines.local import one_thread
from fedkin.experiment.run import open_federation
from fedkin.experiment.run_folder import RECORDS, load_found, read_lines, read_timing, run_config
from fedkin.methods.clients.one_shot import least_clients
from fedkin.privacy.randomised_response import flipped
from fedkin.report.measures import TRAINING, number, phase_of
from fedkin.studies.costs import costs_of, target_in

Figures = dict[str, float]
"""What a probe measures, by key."""


class FinishedRun:
    """Records and times of a finished run, each read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def records(self) -> list[RecordLine]:
        """Lines of ``records.jsonl``."""
        return read_lines(self.folder / RECORDS)

    @cached_property
    def timing(self) -> list[Timing]:
        """Lines of ``timing.jsonl``."""
        return read_timing(self.folder)

    def values(self, name: str) -> list[float | None]:
        """Return a number from every record; ``None`` where it is absent or not a number."""
        return [number(line, name) for line in self.records]

    def numbers(self, name: str) -> list[float]:
        """Return a number from the records that have it."""
        return [value for value in self.values(name) if value is not None]


def all_rounds(folder: Path) -> Figures:
    """Return mean clustering scores over all allowed rounds of a run that ended when clusters formed (OCFL, table 1).

    The clusters are final then, so the skipped rounds count with the scores of the last one.
    """
    method: Any = run_config(folder).method
    run, rounds = FinishedRun(folder), method.rounds
    means = {}
    for name in ("ari", "ami", "homogeneity", "completeness"):
        values = [value or 0.0 for value in run.values(name)]
        means[name] = mean([*values, *[values[-1]] * (rounds - len(values))])
    return means


def temperature(folder: Path) -> Figures:
    """Return OCFL's temperature (figure 3): ``first``, ``lowest``, at the ``rise`` that formed clusters, and the
    ``drop`` from the first to the lowest.
    """
    values = FinishedRun(folder).numbers("temperature")
    return {"first": values[0], "lowest": min(values), "rise": values[-1], "drop": values[0] - min(values)}


def target(folder: Path) -> Figures:
    """Return the cost of reaching the target of the run's own experiment: ``rounds`` of training, ``mb``,
    ``client_seconds``; nothing if it was never reached.
    """
    goal = run_config(folder).evaluation
    if goal.target is None or goal.reach is None:
        raise FedkinError(f"{folder} has no target; set 'evaluation.target' and 'evaluation.reach'.")
    costs = costs_of(folder, (goal.target, goal.reach))
    if costs is None:
        return {}
    total = costs.loc["total"]
    figures = {"mb": (total.sent + total.received) / 1e6, "client_seconds": float(total.client_seconds)}
    return {"rounds": _training_rounds(costs), **figures}


def _training_rounds(costs: pd.DataFrame) -> float:
    return float(costs["steps"].get(TRAINING, 0))


def trained(folder: Path) -> Figures:
    """Return the personal accuracy at the last evaluation, by number of training rounds (other phases do not count)."""
    rounds = [line for line in FinishedRun(folder).records if phase_of(line) == TRAINING]
    figures: Figures = {}
    for count, line in enumerate(rounds, 1):
        last = line["metrics"].get("personal_accuracy", figures.get(str(count - 1)))
        figures |= {} if last is None else {str(count): last}
    return figures


def message(folder: Path) -> Figures:
    """Return the client seconds of one ``message``, of one ``epoch`` of a client's training, and the ``ratio``
    (embedding, figure 6).
    """
    method: Any = run_config(folder).method
    run = FinishedRun(folder)
    seconds = {line["step"]: line["client_seconds"] for line in run.timing}
    by_phase: dict[str, list[float]] = {}
    for line in run.records:
        by_phase.setdefault(phase_of(line), []).append(seconds[line["step"]] / len(line["answered"]))
    sending, epoch = mean(by_phase["embedding"]), mean(by_phase[TRAINING]) / method.local_epochs
    return {"message": sending, "epoch": epoch, "ratio": epoch / sending}


def flips(folder: Path) -> Figures:
    """Return the ARI by clustering algorithm and flip probability (embedding, figure 4).

    The clients' bits are flipped anew for every probability. ``exact@0.1`` is the ARI of the method's own algorithm,
    ``bayes@0.1`` that of the published search where clusters may have two clients, as in the authors' study, and
    ``given@0.1`` that of k-means given the number of clusters.
    """
    config, loaded = run_config(folder), load_found(folder)
    population = config.scenario.build(config.data_seed)
    truth, method = population.clusters, loaded.method
    if not isinstance(method, SendsBits) or truth is None:
        raise FedkinError(f"{folder} is no run of 'embedding' on clients of hidden clusters.")
    bits = []
    for client in population.clients:
        rng = derive_generator(config.seed, "filling", client.id)
        unseen = Client.unseen(loaded.preparation.of(client), client.y, rng)
        bits.append(method.true_bits(unseen, loaded.result))
    min_size = least_clients(config.method.min_size, len(bits))
    figures: Figures = {}
    for turn in range(11):
        rate, rng, drawn = turn / 20, derive_generator(config.seed, "flips", turn), (config.seed, "grouping", turn)
        points = torch.stack([flipped(clean, rate, rng) for clean in bits]).flatten(1)

        clusterings = {
            "exact": cluster(points, "exact", min_size, derive_generator(*drawn), flips=rate),
            "bayes": cluster(points, "bayes", 2, derive_generator(*drawn)),
            "given": k_means(
                points, len(truth.unique()), derive_generator(config.seed, "told", turn), exact=True
            ).labels,
        }
        for name, labels in clusterings.items():
            figures[f"{name}@{rate:g}"] = adjusted_rand(truth.numpy(), labels.numpy())
    return figures


def initial(folder: Path) -> Figures:
    """Return the ``accuracy`` of the clients' initial clusters, computed again as the run made them, and the run's
    relative ``improvement`` on it (FedCRef, tables 6, 9 and 11).
    """
    config = run_config(folder)
    if not isinstance(config.method, LinksLocalClusters):
        raise FedkinError(f"{folder} is a run of {config.method_name}; only fedcref has first clusters.")
    with open_federation(config, folder, Progress()) as (population, fed), one_thread():
        if population.truth is None:
            raise FedkinError(f"{folder} has no classes to judge its first clusters by.")
        prepare(fed, config.data.table)
        config.method.init(fed)
        clients = [fed.clients[i] for i in fed.ids]
        first = mean(clustering_accuracy(population.truth[client.id], client.state["labels"]) for client in clients)
    last = FinishedRun(folder).numbers("accuracy")[-1]
    return {"accuracy": first, "improvement": (last - first) / first}


def unmatched(folder: Path) -> Figures:
    """Return the ``fraction`` of the initial local clusters that are unmatched in the end."""
    run = FinishedRun(folder)
    first, last = run.values("local_clusters")[0], run.values("unmatched")[-1]
    return {"fraction": last / first} if first and last is not None else {}


def within(folder: Path) -> Figures:
    """Return Cohen's kappa within each client, numbered from 1, and the ``mean``, at the end (CCFC, table 4)."""
    kappas = [line["metrics"]["kappas"] for line in FinishedRun(folder).records if "kappas" in line["metrics"]]
    return _by_client(kappas[-1]) if kappas else {}


def imbalance(folder: Path) -> Figures:
    """Return each client's largest class over its smallest, by client from 1 on, and the ``mean`` (CCFC, table 4).

    Classes that a client lacks do not count.
    """
    config = run_config(folder)
    truth = config.scenario.build(config.data_seed).truth
    if truth is None:
        raise FedkinError(f"{folder} has no classes to count.")
    counts = [classes.bincount() for classes in truth]
    return _by_client([float(count.max() / count[count > 0].min()) for count in counts])


def _by_client(values: Sequence[float]) -> Figures:
    return {**{str(client): value for client, value in enumerate(values, 1)}, "mean": mean(values)}


def probed(folder: Path, name: str) -> Figures:
    """Return what the probe `name` measures on the run in `folder`; repeated calls read the stored result.

    Raises FedkinError if the run is not one for this probe.
    """
    file = folder / f"probe-{name}.json"
    if not file.exists():
        write_atomically(file, json.dumps(PROBES[name](folder), sort_keys=True) + "\n")
    return read_json(file, Figures, "; remove it to measure again")


def is_probed(name: str, folder: Path) -> bool:
    """Return whether the run in `folder` has a stored result of the probe `name`."""
    return (folder / f"probe-{name}.json").exists()


def knn(folder: Path, embedded: bool = True) -> Figures:
    """Return the k-nearest-neighbour accuracy in the run's representation, by number of neighbours (CCFC, table 3).

    The samples of all clients are pooled, and a seventh of them, drawn by the run's seed, is classified by the rest:
    the training and test samples of the data were mixed when they were allocated to clients. Neighbours are nearest by
    cosine. Without `embedded` they are those among the samples themselves.
    """
    config, saved = run_config(folder), load_found(folder)
    population = config.scenario.build(config.data_seed)
    y = torch.cat(population.truth)
    x = saved.preparation.prepared(torch.cat([client.x for client in population.clients]))
    held_out = torch.zeros(len(y), dtype=torch.bool)
    held_out[torch.randperm(len(y), generator=derive_generator(config.seed, "held out"))[: len(y) // 7]] = True
    points = saved.method.embed(saved.result, x) if embedded else x.flatten(1)
    unit = torch.nn.functional.normalize(points, dim=1).numpy()  # so that the nearest are those by cosine
    fitted, unseen, classes = unit[~held_out], unit[held_out], y[~held_out]
    # The nearest of all counts at once, for one pass over the samples takes minutes.
    order = NearestNeighbors(n_neighbors=min(7000, len(fitted)), algorithm="brute").fit(fitted).kneighbors(unseen)[1]
    figures = {}
    for count in (3, 5, 7, 9, 100, 1000, 7000):
        votes = torch.zeros(len(order), int(y.max()) + 1).scatter_add_(
            1, classes[torch.from_numpy(order[:, :count])], torch.ones(len(order), min(count, order.shape[1]))
        )
        figures[str(count)] = float((votes.argmax(1) == y[held_out]).float().mean())
    return figures


def reconstruction(folder: Path) -> Figures:
    """Return an attacker's reconstruction error by flip probability or ``none`` (embedding, table 2)."""
    from fedkin.studies.attack import JSON, attack

    if not (folder / JSON).exists():
        attack(folder)
    levels = json.loads((folder / JSON).read_text(encoding="utf-8"))["reconstruction"]["levels"]
    return {"none" if level["flip"] is None else f"{level['flip']:g}": level["error"] for level in levels}


PROBES: dict[str, Callable[[Path], Figures]] = {
    "knn": knn,
    "knn-samples": partial(knn, embedded=False),
    "reconstruction": reconstruction,
    "all-rounds": all_rounds,
    "flips": flips,
    "message": message,
    "target": target,
    "temperature": temperature,
    "trained": trained,
    "imbalance": imbalance,
    "initial": initial,
    "unmatched": unmatched,
    "within": within,
}
"""What is measured on a run's result, by name."""

COSTS = ("steps", "both_mb", "seconds", "client_seconds")
"""What a run costs, by name."""
_FORM = re.compile(r"([\w-]+)/.+|rounds_to:\w+=[\d.]+|([A-Za-z_]\w*)(@(?:first|last|last5|mean|\d+))?")


def check(measure: str) -> None:
    """Check that `measure` is valid, before any run starts; raises FedkinError if it is not."""
    match = _FORM.fullmatch(measure)
    if not match or (match[1] and match[1] not in PROBES) or (match[3] and match[2] in COSTS):
        raise FedkinError(f"'{measure}' is no measure; see docs/reproduce.md for what can be measured.")


def measured(run: FinishedRun, measure: str) -> float | None:
    """Return the value of `measure`, which is valid, in a finished run; ``None`` if the run has none.

    Raises FedkinError if its probe does not apply to the run.
    """
    if "/" in measure:
        probe, key = measure.split("/", 1)
        return probed(run.folder, probe).get(key)
    if ":" in measure:
        costs = costs_of(run.folder, target_in(measure.partition(":")[2]))
        return None if costs is None else _training_rounds(costs)
    name, _, when = measure.partition("@")
    if name in COSTS and (costs := costs_of(run.folder)) is not None:
        total = costs.loc["total"]
        return float((total.sent + total.received) / 1e6 if name == "both_mb" else total[name])
    values, numbers = run.values(name), run.numbers(name)
    if when.isdigit():
        numbers = [value for value in values[: int(when)] if value is not None]
    if not numbers:
        return None
    if when == "mean":
        return mean(value or 0.0 for value in values)
    return mean({"first": numbers[:1], "last5": numbers[-5:]}.get(when, numbers[-1:]))
