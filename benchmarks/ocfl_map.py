"""When OCFL clusters rightly: ARI by scenario, samples, clients, participation and clusterer.

    python benchmarks/ocfl_map.py run FILE --seeds 0 1 2
    python benchmarks/ocfl_map.py show FILE

The scenario is label-flip with four clusters, unless others are named; where a scenario has no clusters, all clients
together are right. Results are appended to FILE, a line of JSON per run; what is there already is not run again. A run
ends as soon as all clients are clustered, or after 12 rounds, where clients that are in no cluster yet count as one
more.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from sklearn.metrics import adjusted_rand_score

from fedkin.core.progress import Progress
from fedkin.data.reading.sources import keep_read
from fedkin.experiment.config import load_config
from fedkin.experiment.run import open_federation
from fedkin.methods.clients.ocfl import OCFLMethod
from grid import json_lines, overrides, spread

SAMPLES, CLIENTS, PARTICIPATION, CLUSTERERS = (15, 30, 100, 300), (10, 20, 100), (1.0, 0.5), ("hdbscan", "linkage")
ROUNDS, CLUSTERS = 12, 4
KEY = ("data", "scenario", "samples", "clients", "participation", "clusterer", "seed")


def main() -> None:
    """Run the map, or print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--scenarios", nargs="+", default=("label-flip",))
    parser.add_argument("--samples", nargs="+", type=int, default=SAMPLES)
    parser.add_argument("--clients", nargs="+", type=int, default=CLIENTS)
    parser.add_argument("--participation", nargs="+", type=float, default=PARTICIPATION)
    parser.add_argument("--clusterers", nargs="+", default=CLUSTERERS)
    parser.add_argument("--seeds", nargs="+", type=int, default=(0, 1, 2))
    given = parser.parse_args()
    if given.what == "show":
        show(given)
        return
    keep_read()
    known = {tuple(line[key] for key in KEY) for line in json_lines(given.file)}
    for cell in cells(given):
        if tuple(cell.values()) not in known:
            with given.file.open("a") as file:
                file.write(json.dumps(cell | clustered(cell)) + "\n")


def cells(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All cells, one seed of everything first."""
    axes = (given.seeds, given.scenarios, given.samples, given.clients, given.participation, given.clusterers)
    for seed, *others in product(*axes):
        yield dict(zip(KEY, (given.data, *others, seed), strict=True))


def clustered(cell: dict[str, Any]) -> dict[str, Any]:
    """Run one cell: the ARI, the number of clusters, and the round of the clustering, ``None`` if there was none."""
    settings = {
        "seed": cell["seed"],
        "data.source": cell["data"],
        "scenario.name": cell["scenario"],
        "scenario.clients": cell["clients"],
        "scenario.samples_per_client": cell["samples"],
        "method.module": "perceptron",
        "method.rounds": ROUNDS,
        "method.participation": cell["participation"],
        "method.clusterer": cell["clusterer"],
        "engine.workers": 1,
    }
    if cell["scenario"] == "label-flip":
        settings["scenario.n_clusters"] = CLUSTERS
    config = load_config("ocfl", overrides(settings))
    made = {key: settings[f"method.{key}"] for key in ("module", "rounds", "participation", "clusterer")}
    method = OCFLMethod(**made)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as place, open_federation(config, Path(place), Progress()) as (population, fed):
        state, at = method.init(fed), None
        while not state.finished and (at is None or state.pending):
            state, _ = method.step(fed, state)
            at = state.steps if state.fired and at is None else at
        labels = state.labels.tolist()
        true = [0] * len(labels) if population.clusters is None else population.clusters.tolist()
        ari = float(adjusted_rand_score(true, labels))
    return {"ari": ari, "found": len(set(labels)), "round": at}


def show(given: argparse.Namespace) -> None:
    """Print a row per scenario, samples and clients: mean ARI over seeds by participation and clusterer."""
    found = {tuple(line[key] for key in KEY): line for line in json_lines(given.file)}
    columns = list(product(given.participation, given.clusterers))
    heads = " | ".join(f"{clusterer}, {part:.0%}" for part, clusterer in columns)
    print(f"| scenario | samples | clients | {heads} |")
    print("|---|---|---|" + "---|" * len(columns))
    for row in product(given.scenarios, given.samples, given.clients):
        texts = [
            spread([found.get((given.data, *row, *one, seed), {}).get("ari") for seed in given.seeds])
            for one in columns
        ]
        print(f"| {' | '.join(map(str, row))} | {' | '.join(texts)} |")


if __name__ == "__main__":
    main()
