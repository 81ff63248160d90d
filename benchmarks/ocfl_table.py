"""OCFL's table I: ARI of the clusters with the hidden ones, for every way of clustering, beside the paper's.

The clusters of OCFL are fixed once they are formed, and until then training is the same whatever forms them. So one run
up to that round serves all clusterers: they are applied to the distances it ended with.

    python benchmarks/ocfl_table.py run RUNS --data mnist fashion_mnist --clients 15 30 --seeds 0 1 2
    python benchmarks/ocfl_table.py show RUNS

Runs are ordinary folders in RUNS and are resumed or skipped if they are there already. ``mean ARI`` is over 50 rounds,
as in the paper: 0 until the clusters are formed, and the same from then on. Rounds count from 0, as in the paper.

``--method sattler`` and ``--method hierarchical`` run the paper's SCL and BCL with its thresholds, for all 50 rounds:

    python benchmarks/ocfl_table.py run RUNS --method sattler --set scenario.samples_per_client=500
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from fedkin.clustering import from_distances
from fedkin.clustering.metrics import adjusted_mutual_information, adjusted_rand, homogeneity
from fedkin.experiment.config import load_config
from fedkin.experiment.outputs import load_found
from fedkin.experiment.run_folder import CONFIG
from grid import records, run, spread

ROUNDS = 50
SPLITS = {"nb": (False, True), "ni": (False, False), "ob": (True, True), "oi": (True, False)}
"""Non-overlapping or overlapping classes, balanced or imbalanced: (overlap, balanced)."""

PAPER = {
    ("mnist", 15): {"kmeans": ".96 .96 .96 .96", "affinity-paper": ".23 .13 .23 .30", "meanshift": ".71 .96 .87 .96",
                    "hdbscan": ".96 .96 .96 .96"},
    ("mnist", 30): {"kmeans": ".96 .96 .90 .94", "affinity-paper": ".38 .66 .36 .50", "meanshift": ".85 .94 .87 .94",
                    "hdbscan": ".92 .98 .94 .94"},
    ("fashion_mnist", 15): {"kmeans": ".98 .98 .98 .98", "affinity-paper": ".23 .22 .23 .31",
                            "meanshift": ".98 .98 .98 .98", "hdbscan": ".96 .98 .96 .98"},
    ("fashion_mnist", 30): {"kmeans": ".96 .98 .96 .96", "affinity-paper": ".39 .66 .37 .51",
                            "meanshift": ".85 .96 .94 .98", "hdbscan": ".98 .98 .94 .96"},
    ("cifar10", 15): {"kmeans": ".35 .52 .90 .68", "affinity-paper": "– – .08 .35", "meanshift": ".23 .16 – .73",
                      "hdbscan": ".73 .84 .59 .77"},
    ("cifar10", 30): {"kmeans": ".37 .42 .90 .59", "affinity-paper": ".35 .46 .23 .32", "meanshift": ".63 .56 – –",
                      "hdbscan": ".77 .88 .64 .83"},
}  # fmt: skip
"""Mean ARI over 50 rounds by (data, clients) and clusterer; splits in the order of `SPLITS`."""

PAPER["mnist", 15] |= {"sattler": ".44 .57 .21 .29", "hierarchical": "– – – –"}
PAPER["mnist", 30] |= {"sattler": ".45 .57 .19 .26", "hierarchical": "– -.04 – –"}
PAPER["fashion_mnist", 15] |= {"sattler": ".46 .55 .19 .17", "hierarchical": "-.14 – – –"}
PAPER["fashion_mnist", 30] |= {"sattler": ".57 .57 .42 .53", "hierarchical": "– – -.07 -.05"}
PAPER["cifar10", 15] |= {"sattler": "– – – –", "hierarchical": ".00 .00 .00 .00"}
PAPER["cifar10", 30] |= {"sattler": "– – – –", "hierarchical": ".03 .02 .01 .00"}

RIVALS: dict[str, dict[str, Any]] = {
    "sattler": {
        "method.norms": "absolute", "method.mean_below": 0.35, "method.largest_above": 0.35, "method.separation": 1.0,
        "method.cooldown": 20, "method.cache": False,
    },
    "hierarchical": {
        "method.clustering_round": 21, "method.distance": "similarity", "method.linkage": "average",
        "method.threshold": 0.05,
    },
}  # fmt: skip
"""The paper's SCL and BCL, with its thresholds; experiments/ocfl/table-1.toml has the same."""


def main() -> None:
    """Run the grid, or print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--data", nargs="+", default=["mnist", "fashion_mnist"])
    parser.add_argument("--clients", nargs="+", type=int, default=[15, 30])
    parser.add_argument("--splits", nargs="+", default=list(SPLITS), choices=list(SPLITS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--module", default="lenet5")
    parser.add_argument("--method", default="ocfl", choices=["ocfl", *RIVALS])
    parser.add_argument("--set", nargs="*", default=[], help="more keys of the experiment, as of `fedkin run`")
    given = parser.parse_args()
    if given.what == "show":
        show(given.runs)
        return
    for seed in given.seeds:
        for data in given.data:
            for clients in given.clients:
                for split in given.splits:
                    rival = "" if given.method == "ocfl" else f"-{given.method}"
                    folder = given.runs / f"{data}-{clients}-{split}-{given.module}-s{seed}{rival}"
                    one_run(folder, data, clients, split, seed, given)


def one_run(folder: Path, data: str, clients: int, split: str, seed: int, given: argparse.Namespace) -> None:
    """One run; it ends as soon as the clients are clustered, if the method clusters once."""
    overlap, balanced = SPLITS[split]
    settings: dict[str, Any] = {
        "seed": seed, "data.source": data, "scenario.name": "label-clusters", "scenario.clients": clients,
        "scenario.overlap": overlap, "scenario.balanced": balanced, "method.module": given.module,
        "method.rounds": ROUNDS, "method.local_epochs": 3, "method.learning_rate": 0.01, "evaluation.every": ROUNDS,
        "evaluation.map": "none",
    }  # fmt: skip
    if given.method != "sattler":
        settings |= {"target.metric": "splits", "target.reach": 1, "target.stop": True}
    run(folder, given.method, settings | RIVALS.get(given.method, {}), given.set)


def show(runs: Path) -> None:
    """Print mean and spread over seeds, beside the paper's figures, as a Markdown table."""
    scores: dict[tuple[str, int, str, str], dict[str, list[dict[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for folder in sorted(path.parent for path in runs.glob("*/result.json")):
        config = load_config(folder / CONFIG)
        made = config.scenario
        split = next(name for name, kind in SPLITS.items() if kind == (made.overlap, made.balanced))
        for clusterer, found in scored(folder, config.method_name, made.hidden_clusters()).items():
            scores[config.data.source, made.clients, config.method.module, split][clusterer].append(found)
    head = "data clients model split clusterer runs fired ARI mean_ARI paper AMI hom."
    print(f"| {' | '.join(head.split())} |\n{'|---' * len(head.split())}|")
    for (data, clients, module, split), by_clusterer in sorted(scores.items()):
        for clusterer, found in by_clusterer.items():
            paper = PAPER.get((data, clients), {}).get(clusterer)
            cell = paper.split()[list(SPLITS).index(split)] if paper else "–"
            rounds = "/".join(str(int(one["round"])) if one["round"] < ROUNDS else "never" for one in found)
            columns = [spread([one[name] for one in found]) for name in ("ari", "mean", "ami", "homogeneity")]
            print(
                f"| {data} | {clients} | {module} | {split} | {clusterer} | {len(found)} | {rounds} | {columns[0]} | "
                f"{columns[1]} | {cell} | {columns[2]} | {columns[3]} |"
            )


def scored(folder: Path, method: str, truth: Tensor) -> dict[str, dict[str, float]]:
    """By clusterer: the round counted from 0, the clusters' agreement from then on, and its mean over 50 rounds."""
    if method != "ocfl":
        return {method: by_rounds(records(folder))}
    fired = len(records(folder)) - 1
    splits = load_found(folder).result["splits"]
    found = {}
    for name, labels in (clusterings(splits[0]["distances"]) if splits else dict.fromkeys(clusterings(None))).items():
        if labels is None:
            found[name] = {"round": ROUNDS, "ari": 0.0, "mean": 0.0, "ami": 0.0, "homogeneity": 0.0}
            continue
        true = truth[splits[0]["clients"]].numpy()
        ari = adjusted_rand(true, labels)
        found[name] = {
            "round": fired, "ari": ari, "mean": ari * (ROUNDS - fired) / ROUNDS,
            "ami": adjusted_mutual_information(true, labels), "homogeneity": homogeneity(true, labels),
        }  # fmt: skip
    return found


def by_rounds(lines: list[dict[str, Any]]) -> dict[str, float]:
    """The same by a run's records; rounds that it was spared have the agreement of the last."""
    first = next((step for step, line in enumerate(lines) if line["values"]["clusters"] > 1), ROUNDS)
    last = lines[-1]["metrics"]
    ari = [line["metrics"]["ari"] for line in lines] + [last["ari"]] * (ROUNDS - len(lines))
    return {
        "round": first, "ari": last["ari"], "mean": mean(ari), "ami": last["ami"], "homogeneity": last["homogeneity"],
    }  # fmt: skip


def clusterings(distances: Tensor | None) -> dict[str, Any]:
    """The clusters that every clusterer makes of the same distances."""
    names = ["kmeans", "affinity-paper", "affinity", "meanshift", "hdbscan"]
    if distances is None:
        return dict.fromkeys(names)
    rng = torch.Generator().manual_seed(0)
    made = [
        from_distances.kmeans(distances, 3, rng),
        from_distances.affinity(distances, "paper", rng),
        from_distances.affinity(distances, "corrected", rng),
        from_distances.meanshift(distances),
        from_distances.hdbscan(distances, 0.2, "cluster"),
    ]
    return dict(zip(names, made, strict=True))


if __name__ == "__main__":
    main()
