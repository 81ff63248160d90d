"""Measures of a finished run, named by a number and the moment at which it is read.

``NAME`` is a number of the records, or one of `COSTS`. ``NAME@WHEN`` is its value in the ``first`` or the ``last``
record that has it (the default), at a step (``accuracy@5``: the last at or before it), its ``mean`` over all steps (0
where it is absent, as the ARI is before there are clusters), or ``last5``: the mean of its last five.
``rounds_to:NAME=VALUE`` are the rounds of training until a value is reached. ``PROBE/KEY`` is measured on the result of
the run, see `PROBES`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from sklearn.metrics import calinski_harabasz_score
from torch import Tensor

from fedkin.clustering.k_means import k_means
from fedkin.clustering.metrics import adjusted_rand, clustering_accuracy
from fedkin.clustering.nearest import neighbours_vote
from fedkin.core import Client, Federation, FedkinError
from fedkin.core.errors import unknown_name
from fedkin.core.files import read_json, write_atomically
from fedkin.core.method import LinksLocalClusters, SendsBits
from fedkin.core.progress import Progress, RecordLine, Timing
from fedkin.core.seeds import derive_generator
from fedkin.data.preparation import prepare
from fedkin.engines.local import one_thread
from fedkin.experiment.outputs import load_found
from fedkin.experiment.run import open_federation
from fedkin.experiment.run_folder import RECORDS, read_lines, read_timing, run_config
from fedkin.methods.clients.one_shot.tree_cuts import cluster
from fedkin.methods.samples.ccfc import ccfc
from fedkin.methods.samples.ccfc.contrastive import Contrastive, ContrastiveTraining
from fedkin.methods.samples.sample_method import describe_clients
from fedkin.privacy.randomised_response import flipped
from fedkin.report.measures import TRAINING, phase_of
from fedkin.studies.costs import CostTarget, costs_of, target_in


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

    @property
    def names(self) -> set[str]:
        """Names of all numbers in the records; not those of lists."""
        names = {name for line in self.records for part in ("values", "metrics") for name in line[part]}
        return {name for name in names if any(value is not None for value in self.values(name))}

    def values(self, name: str) -> list[float | None]:
        """Return a number from every record; ``None`` where it is absent or not a number."""
        values = (line["metrics"].get(name, line["values"].get(name)) for line in self.records)
        return [
            float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None for value in values
        ]


def all_rounds(folder: Path) -> dict[str, float]:
    """Return mean clustering scores over all allowed rounds of a run that ended when clusters formed (OCFL, table 1).

    The clusters are final then, so the skipped rounds count with the scores of the last one.
    """
    run = FinishedRun(folder)
    rounds = _method(folder).rounds
    means = {}
    for name in ("ari", "ami", "homogeneity", "completeness"):
        values = [value or 0.0 for value in run.values(name)]
        means[name] = mean([*values, *[values[-1]] * (rounds - len(values))])
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
    goal = run_config(folder).evaluation
    if goal.target is None or goal.reach is None:
        raise FedkinError(f"{folder} has no target; set 'evaluation.target' and 'evaluation.reach'.")
    (costs,) = costs_of([folder], CostTarget(goal.target, goal.reach))
    if costs.rounds is None:
        return {}
    seconds = costs.total.amounts["client_seconds"]
    figures = {"rounds": float(costs.rounds), "mb": (costs.total.sent + costs.total.received) / 1e6}
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
    by_phase: dict[str, list[float]] = {}
    for line in run.records:
        by_phase.setdefault(phase_of(line), []).append(seconds[line["step"]] / len(line["answered"]))
    if "embedding" not in by_phase or method.local_steps is not None:
        raise FedkinError(f"{folder} is no run in which clients send a message and then train for some epochs.")
    sending, epoch = mean(by_phase["embedding"]), mean(by_phase[TRAINING]) / method.local_epochs
    return {"message": sending, "epoch": epoch, "ratio": epoch / sending}


def _method(folder: Path) -> Any:
    """Return the run's method, whose type each probe knows."""
    return run_config(folder).method


def flips(folder: Path) -> dict[str, float]:
    """Return the ARI by clustering algorithm and flip probability (embedding, figure 4).

    The run has an encoder that makes the clients' bits, which are flipped anew for every probability. ``exact@0.1`` is
    the ARI of the method's own algorithm, ``bayes@0.1`` that of the published search where clusters may have two
    clients, as in the authors' study, and ``given@0.1`` that of k-means given the number of clusters. Raises
    FedkinError if the run is not one of `embedding` in a scenario with hidden clusters.
    """
    config, loaded = run_config(folder), load_found(folder)
    population = config.scenario.build(config.data_seed)
    truth, method = population.clusters, loaded.method
    if not isinstance(method, SendsBits) or "flip" not in loaded.result or truth is None:
        raise FedkinError(
            f"{folder} is no run of 'embedding' on clients of hidden clusters, so it has no bits to flip."
        )
    bits = []
    for client in population.clients:
        rng = derive_generator(config.seed, "filling", client.id)
        unseen = Client.unseen(loaded.preparation.of(client), client.y, rng)
        bits.append(method.true_bits(unseen, loaded.result))
    min_size = _method(folder).smallest(len(bits))
    figures: dict[str, float] = {}
    for turn in range(11):
        rate, rng = turn / 20, derive_generator(config.seed, "flips", turn)
        points = torch.stack([flipped(clean, rate, rng) for clean in bits]).flatten(1)

        def grouping(turn: int = turn) -> torch.Generator:
            return derive_generator(config.seed, "grouping", turn)

        clusterings = {
            "exact": cluster(points, "exact", min_size, grouping(), flips=rate).labels,
            "bayes": cluster(points, "bayes", 2, grouping()).labels,
            "given": k_means(points.double(), len(truth.unique()), derive_generator(config.seed, "told", turn)).labels,
        }
        for name, labels in clusterings.items():
            figures[f"{name}@{rate:g}"] = adjusted_rand(truth.numpy(), labels.numpy())
    return figures


def separation(folder: Path) -> dict[str, float]:
    """Return Calinski-Harabasz scores of the true classes; higher is better separated (CCFC, figures 3 to 5).

    ``samples`` and ``latents`` are of the samples of all clients, as they are and as the method represents them. For
    CCFC's networks there are more. Local networks are those of clients that train alone; else they are the common
    network after another round of local training by clusters, with new moments of Adam, before averaging:

    * ``client-samples``, ``client-common`` and ``client-local`` are of the first client's samples, as they are, in the
      common network and in its local one, where that client has two classes or more;
    * ``local`` and ``common`` are of up to 100 samples of each of two classes, drawn by the run's seed from those of
      all clients, in their clients' local networks and in the common one.

    Raises FedkinError if the run's data have no classes.
    """
    config, saved = run_config(folder), load_found(folder)
    with open_federation(config, folder, Progress()) as (population, fed), one_thread():
        if population.truth is None:
            raise FedkinError(f"{folder} has no classes to be separated.")
        prepare(fed, config.data.table)
        clients, truth = population.clients, population.truth
        x, y = torch.cat([client.x for client in clients]), torch.cat(truth)
        figures = {"samples": _score(x.flatten(1), y), "latents": _score(saved.method.embed(saved.result, x), y)}
        if "network" in saved.result:
            rows = _of_two_classes(y, derive_generator(config.seed, "two classes"))
            figures |= _of_networks(config.method, saved.result, fed, clients, y, rows)
    return {name: score for name, score in figures.items() if score is not None}


def _of_networks(
    method: Any, result: Mapping[str, Any], fed: Federation, clients: Sequence[Client], y: Tensor, rows: Tensor
) -> dict[str, float | None]:
    """Return the scores that need the networks; `rows` are of two classes, `y` are the classes of all samples."""
    network, sizes = Contrastive.of(result["network"]), [len(client) for client in clients]
    local = result["models"] if method.standalone else _after_another_round(method, result, fed)
    pairs = list(zip(local, clients, strict=True))
    latents = torch.cat([network.latents(model, client.x) for model, client in pairs])
    first = slice(0, sizes[0])
    scores = {
        "client-samples": _score(clients[0].x.flatten(1), y[first]),
        "client-local": _score(latents[first], y[first]),
        "local": _score(latents[rows], y[rows]),
    }
    if not method.standalone:
        common = torch.cat([network.latents(result["models"][0], client.x) for client in clients])
        scores |= {"client-common": _score(common[first], y[first]), "common": _score(common[rows], y[rows])}
    return scores


def _after_another_round(method: Any, result: Mapping[str, Any], fed: Federation) -> list[Tensor]:
    """Train the common network locally for another round, and return each client's network."""
    training = {field.name: getattr(method, field.name) for field in fields(ContrastiveTraining)}
    payload = {
        "network": result["network"], "model": result["models"][0], "centroids": result["centroids"][0],
        "n_clusters": method.n_clusters, "training": training, "unit": describe_clients(fed).unit,
        "guided": False,
    }  # fmt: skip
    replies = fed.ask(ccfc.learn_clusters, fed.all(**payload))
    return [replies[client]["model"] for client in sorted(replies)]


def _of_two_classes(y: Tensor, rng: torch.Generator) -> Tensor:
    """Draw up to 100 rows of each of two classes of `y`; of all classes if there are fewer than two."""
    classes = y.unique()
    chosen = classes[torch.randperm(len(classes), generator=rng)[:2]]
    drawn = [(y == label).nonzero()[:, 0] for label in chosen]
    return torch.cat([rows[torch.randperm(len(rows), generator=rng)[:100]] for rows in drawn])


def _score(points: Tensor, y: Tensor) -> float | None:
    """Return the Calinski-Harabasz score; ``None`` with fewer than two classes or too few samples."""
    count = len(y.unique())
    return float(calinski_harabasz_score(points.numpy(), y.numpy())) if 1 < count < len(y) else None


def initial(folder: Path) -> dict[str, float]:
    """Return the ``accuracy`` of the clients' initial clusters, and the run's relative ``improvement`` on it.

    The initial clusters are computed again as the run made them (FedCRef, tables 6, 9 and 11). Raises FedkinError if
    the run is not one of FedCRef, or its data have no classes.
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
    last = [value for value in FinishedRun(folder).values("accuracy") if value is not None][-1]
    return {"accuracy": first, "improvement": (last - first) / first}


def unmatched(folder: Path) -> dict[str, float]:
    """Return the ``fraction`` of the initial local clusters that are unmatched in the end."""
    run = FinishedRun(folder)
    clusters, unmatched_clusters = run.values("local_clusters"), run.values("unmatched")
    return (
        {"fraction": unmatched_clusters[-1] / clusters[0]} if clusters[0] and unmatched_clusters[-1] is not None else {}
    )


def within(folder: Path) -> dict[str, float]:
    """Return Cohen's kappa within each client, numbered from 1, and the ``mean``, at the end (CCFC, table 4)."""
    kappas = [line["metrics"]["kappas"] for line in FinishedRun(folder).records if "kappas" in line["metrics"]]
    return _by_client(kappas[-1]) if kappas else {}


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
    return _by_client([float(count.max() / count[count > 0].min()) for count in counts])


def _by_client(values: Sequence[float]) -> dict[str, float]:
    return {**{str(client): value for client, value in enumerate(values, 1)}, "mean": mean(values)}


Figures = dict[str, float]

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
    saved = load_found(folder)
    x, y, held_out = _samples(folder)
    return _by_neighbours(saved.method.embed(saved.result, saved.preparation.prepared(x)), y, held_out)


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
    held_out[torch.randperm(len(y), generator=derive_generator(config.seed, "held out"))[: len(y) // 7]] = True
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
    rest, classes = points[~held_out], y[~held_out]
    right = torch.zeros(len(neighbours))
    for part, truth in zip(points[held_out].split(500), y[held_out].split(500), strict=True):
        nearest = classes[(part @ rest.T).topk(min(max(neighbours), len(rest)), dim=1).indices]
        for column, k in enumerate(neighbours):
            voters = nearest[:, :k]
            votes = neighbours_vote(voters, torch.ones(voters.shape), int(y.max()) + 1)
            right[column] += float((votes == truth).sum())
    return [float(score) for score in right / int(held_out.sum())]


def reconstruction(folder: Path) -> Figures:
    """Return an attacker's reconstruction error by flip probability or ``none`` (embedding, table 2)."""
    from fedkin.studies.attack import JSON, attack

    if not (folder / JSON).exists():
        attack(folder)
    levels = json.loads((folder / JSON).read_text(encoding="utf-8"))["reconstruction"]["levels"]
    return {"none" if level["flip"] is None else f"{level['flip']:g}": level["error"] for level in levels}


PROBES: dict[str, Callable[[Path], Figures]] = {
    "knn": knn,
    "knn-samples": knn_samples,
    "reconstruction": reconstruction,
    "all-rounds": all_rounds,
    "flips": flips,
    "message": message,
    "target": target,
    "temperature": temperature,
    "trained": trained,
    "imbalance": imbalance,
    "initial": initial,
    "separation": separation,
    "unmatched": unmatched,
    "within": within,
}


COSTS: dict[str, Callable[[FinishedRun], float]] = {
    "steps": lambda run: float(len(run.records)),
    "both_mb": lambda run: (run.records[-1]["sent"] + run.records[-1]["received"]) / 1e6,
    "seconds": lambda run: sum(line["seconds"] for line in run.timing),
    "client_seconds": lambda run: sum(line["client_seconds"] for line in run.timing),
}
"""What a run costs, by name."""


def _mean(values: Sequence[float | None]) -> float:
    return mean(0.0 if value is None else value for value in values)


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


_WHEN: dict[str, Callable[[Sequence[float | None]], float]] = {
    "last": lambda values: _known(values)[-1],
    "first": lambda values: _known(values)[0],
    "mean": _mean,
    "last5": lambda values: mean(_known(values)[-5:]),
}


def check(measure: str) -> None:
    """Check that `measure` is valid, before any run starts.

    Raises FedkinError if it has another form, or names a moment or a probe that does not exist.
    """
    probe, slash, _ = measure.partition("/")
    if slash:
        if probe not in PROBES:
            raise unknown_name("probe", probe, PROBES)
        return
    kind, colon, target = measure.partition(":")
    if colon:
        _goal(kind, target)
        return
    name, _, when = measure.partition("@")
    if not name.isidentifier():
        raise FedkinError(f"'{name}' is not the name of a number; see docs/reproduce.md for what can be measured.")
    if when and name in COSTS:
        raise FedkinError(f"'{measure}' names a moment, but '{name}' is what the whole run cost; leave @{when} out.")
    if when and not when.isdigit() and when not in _WHEN:
        raise unknown_name(f"moment in '{measure}':", when, [*_WHEN, "a step's number"])


def probe_of(measure: str) -> set[str]:
    """Return the name of the probe that `measure` needs, if any."""
    probe, slash, _ = measure.partition("/")
    return {probe} if slash else set()


def number_of(measure: str) -> str | None:
    """Return the number of the records that `measure` reads; ``None`` for a cost and for what a probe measures."""
    if "/" in measure or ":" in measure:
        return None
    name = measure.partition("@")[0]
    return None if name in COSTS else name


def measured(run: FinishedRun, measure: str) -> float | None:
    """Return the value of `measure` in a finished run; ``None`` if the run has none.

    Raises FedkinError if there is no such measure, or its probe does not apply to the run.
    """
    check(measure)
    if "/" in measure:
        probe, key = measure.split("/", 1)
        return probed(run.folder, probe).get(key)
    kind, colon, target = measure.partition(":")
    if colon:
        (cost,) = costs_of([run.folder], _goal(kind, target))
        return None if cost.rounds is None else float(cost.rounds)
    name, _, when = measure.partition("@")
    if name in COSTS:
        return COSTS[name](run)
    values = run.values(name)
    if not _known(values):
        return None
    if when.isdigit():
        before = _known(values[: int(when)])
        return before[-1] if before else None
    return _WHEN[when or "last"](values)


def _goal(kind: str, target: str) -> CostTarget:
    if kind != "rounds_to":
        raise unknown_name("measure", kind, ["rounds_to"])
    if (found := target_in(target)) is None:
        raise FedkinError(f"'{kind}:{target}' should name a number to reach, as in {kind}:personal_accuracy=0.95.")
    return found
