"""Tables III to V of Prigent et al. (2024): accuracy, rounds and cost of clustering before training.

    python benchmarks/embedding_table.py run RUNS --data mnist --methods federated central --encoder fashion.safetensors
    python benchmarks/embedding_table.py show RUNS

Runs are ordinary folders in RUNS, called ``<data>-<method>-s<seed>``, and are resumed or skipped if they are there
already. ``--module`` names another network than the paper's, and ``--rounds`` another number of rounds.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

from fedkin.experiment.config import load_config
from fedkin.experiment.measure_titles import reached
from fedkin.experiment.run_folder import CONFIG
from fedkin.studies.costs import CostTarget, costs_of, training_rounds
from grid import records, run, spread

SETTINGS: dict[str, dict[str, Any]] = {
    "mnist": {
        "scenario.name": "rotation", "scenario.clients": 100, "method.module": "lenet5", "method.rounds": 50,
        "method.local_epochs": 5, "target.reach": 0.95,
    },
    "cifar10": {
        "scenario.name": "label-flip", "scenario.clients": 100, "method.module": "resnet18-imagenet",
        "method.rounds": 50, "method.local_epochs": 1, "target.reach": 0.5,
    },
    "pacs": {
        "scenario.name": "domain", "method.module": "resnet18-imagenet", "method.rounds": 100,
        "method.local_epochs": 1, "target.reach": 0.8,
    },
}  # fmt: skip
"""Table I."""

COMMON = {
    "method.participation": 0.5, "method.batch_size": 32, "method.optimizer": "adam", "method.learning_rate": 0.001,
    "target.metric": "personal_accuracy",
}  # fmt: skip

PRETRAINING = {"mnist": (10, 3), "cifar10": (10, 1), "pacs": (30, 3)}
"""Rounds and epochs of federated pre-training, half of the clients in each."""

MIN_SIZE = {"mnist": 10, "cifar10": 10, "pacs": 5}
"""Of a cluster, in the authors' code."""

METHODS: dict[str, dict[str, Any]] = {
    "federated": {"name": "embedding"},
    "central": {"name": "embedding"},
    "ifca": {"name": "ifca", "n_clusters": 4, "identity": "batch"},
    "ladd": {"name": "ladd", "n_clusters": 4},
    "fedavg": {"name": "fedavg"},
}

PAPER = {
    "mnist": {"federated": "5 / 98.49", "central": "5 / 98.35", "ifca": "11 / 97.50", "ladd": "40 / 94.16",
              "fedavg": "– / 93.05"},
    "cifar10": {"federated": "17 / 61.06", "central": "19 / 59.53", "ifca": "20 / 61.19", "ladd": "– / 40.83",
                "fedavg": "– / 22.93"},
    "pacs": {"federated": "31 / 90.65", "central": "50 / 86.93", "ifca": "– / 73.12", "ladd": "31 / 90.94",
             "fedavg": "– / 65.16"},
}  # fmt: skip
"""Rounds to the target, and final accuracy in percent."""

PAPER_COSTS = {
    "mnist": {"federated": (3.2, 118), "central": (2.7, 109), "ifca": (5.0, 111), "ladd": (2.7, 107),
              "fedavg": (2.7, 108)},
    "cifar10": {"federated": (349.3, 489), "central": (349.0, 472), "ifca": (700.4, 838), "ladd": (349.0, 482),
                "fedavg": (349.0, 468)},
    "pacs": {"federated": (280.5, 415), "central": (280.1, 402), "ifca": (561.2, 714), "ladd": (280.1, 394),
             "fedavg": (280.1, 382)},
}  # fmt: skip
"""Table IV: gigabytes and seconds."""

_LAST = 5


def main() -> None:
    """Run some lines of the table, or print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--data", nargs="+", default=["mnist"], choices=list(SETTINGS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--encoder", help="file of an encoder, for 'central'")
    parser.add_argument("--module", help="another network than the paper's")
    parser.add_argument("--rounds", type=int, help="other than the paper's")
    parser.add_argument("--reach", type=float, help="for 'show': another accuracy than the experiments' target")
    parser.add_argument("--set", nargs="*", default=[], help="more keys of the experiment, as of `fedkin run`")
    given = parser.parse_args()
    if given.what == "show":
        show(given.runs, given.reach)
        return
    for seed in given.seeds:
        for data in given.data:
            for method in given.methods:
                settings = settings_of(data, method, given.encoder)
                settings |= {"seed": seed}
                settings |= {"method.module": given.module} if given.module else {}
                settings |= {"method.rounds": given.rounds} if given.rounds else {}
                run(given.runs / f"{data}-{method}-s{seed}", METHODS[method]["name"], settings, given.set)


def settings_of(data: str, method: str, encoder: str | None) -> dict[str, Any]:
    """All keys of one cell of the table."""
    settings = {"data.source": data, **COMMON, **SETTINGS[data]}
    settings |= {f"method.{key}": value for key, value in METHODS[method].items()}
    if METHODS[method]["name"] == "embedding":
        settings |= {"method.min_size": MIN_SIZE[data]}
    if method == "federated":
        rounds, epochs = PRETRAINING[data]
        settings |= {"method.pretraining_rounds": rounds, "method.pretraining_epochs": epochs}
        settings |= {"method.pretraining_steps": 1}
    if method == "central":
        if encoder is None:
            raise SystemExit("The method 'central' needs --encoder FILE; make one with `fedkin pretrain`.")
        settings |= {"method.encoder": encoder}
    return settings


def show(runs: Path, reach: float | None = None) -> None:
    """Print accuracy and rounds, costs as multiples of federated averaging's, and costs to the target."""
    found: dict[tuple[str, str], list[Path]] = defaultdict(list)
    for folder in sorted(path.parent for path in runs.glob("*/result.json")):
        match = re.fullmatch(r"(\w+)-(\w+)-s\d+", folder.name)
        if match and match[1] in SETTINGS and match[2] in METHODS:
            found[match[1], match[2]].append(folder)
    print("| data | method | model | rounds | seeds | ARI | clusters | rounds to target | final accuracy % | paper |")
    print("|---" * 10 + "|")
    for (data, method), folders in found.items():
        print(f"| {data} | {method} | {' | '.join(accuracy_of(folders, reach))} | {PAPER[data][method]} |")
    print("\n| data | method | bytes / FedAvg's | paper | client seconds / FedAvg's | paper (all seconds) |")
    print("|---" * 6 + "|")
    for data in dict.fromkeys(data for data, _ in found):
        if (data, "fedavg") in found:
            for method in METHODS:
                if (data, method) in found:
                    print(f"| {data} | {method} | {' | '.join(costs_beside(found, data, method))} |")
    print("\n| data | method | accuracy | rounds of training | MB until then | client seconds |")
    print("|---" * 6 + "|")
    for (data, method), folders in found.items():
        for row in costs_to(folders, reach):
            print(f"| {data} | {method} | {' | '.join(row)} |")


def costs_to(folders: list[Path], reach: float | None) -> list[list[str]]:
    """Of every run, the accuracy it was to reach, and what it cost until then (table V)."""
    rows = []
    for folder in folders:
        wanted = reach or load_config(folder / CONFIG).target.reach or 1.0
        (costs,) = costs_of([folder], CostTarget("personal_accuracy", wanted))
        if costs.step is None:
            rows.append([f"{wanted:g}", "–", "–", "–"])
            continue
        seconds = costs.total.client_seconds
        shown = "–" if seconds is None else f"{seconds:.0f}"
        rows.append([f"{wanted:g}", str(costs.rounds), f"{costs.total.both / 1e6:.0f}", shown])
    return rows


def accuracy_of(folders: list[Path], reach: float | None) -> list[str]:
    """Model, rounds, seeds, ARI, clusters, rounds to the target, final accuracy: mean of the last five evaluations."""
    config = load_config(folders[0] / CONFIG)
    ari, clusters, rounds, final = [], [], [], []
    for folder in folders:
        lines = records(folder)
        scores = [line["metrics"]["personal_accuracy"] for line in lines if "personal_accuracy" in line["metrics"]]
        final.append(100 * mean(scores[-_LAST:]))
        ari.append(lines[-1]["metrics"]["ari"])
        clusters.append(str(lines[-1]["values"]["clusters"]))
        when = reached(lines, "personal_accuracy", reach or config.target.reach or 1.0)
        rounds.append(str(training_rounds(lines, when[0])) if when else "–")
    return [
        config.method.module, str(config.method.rounds), str(len(folders)), spread(ari, 2),
        ", ".join(clusters), ", ".join(rounds), spread(final, 2),
    ]  # fmt: skip


def costs_beside(found: dict[tuple[str, str], list[Path]], data: str, method: str) -> list[str]:
    """Bytes and client seconds over federated averaging's with the same seed, and the paper's."""
    base = {folder.name.rpartition("-s")[2]: folder for folder in found[data, "fedavg"]}
    ratios = []
    for folder in found[data, method]:
        if (seed := folder.name.rpartition("-s")[2]) in base:
            own, other = (one.total for one in costs_of([folder, base[seed]]))
            ratios.append(own.over(other))
    paper, zero = PAPER_COSTS[data][method], PAPER_COSTS[data]["fedavg"]
    return [
        spread([ratio["both"] for ratio in ratios], 2), f"{paper[0] / zero[0]:.2f}",
        spread([ratio["client_seconds"] for ratio in ratios], 2), f"{paper[1] / zero[1]:.2f}",
    ]  # fmt: skip


if __name__ == "__main__":
    main()
