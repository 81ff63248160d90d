"""Tables 1 and 2 of CCFC (Liu, Yan, Zhang): NMI and kappa of clusters of samples by heterogeneity, beside the paper's.

    python benchmarks/clustering_table.py run RUNS --data mnist --methods kfed kin-graph -p 0 0.5 1 --seeds 0 1
    python benchmarks/clustering_table.py show RUNS

Runs are ordinary folders in RUNS, called ``<data>-<method>-p<share>-a<absent>-s<seed>``, and are resumed or skipped if
they are there already. ``--absent`` is the fraction of clients that never take part (figure 6), ``--label`` a name for
the line where ``--set`` makes it another one, such as one with the number of clusters given.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

from fedkin.experiment.config import load_config
from fedkin.experiment.run_folder import CONFIG
from grid import records, run, seconds, spread

SHARES = ["0", "0.25", "0.5", "0.75", "1"]

PAPER: dict[str, dict[str, tuple[str, str]]] = {
    "mnist": {
        "kmeans": ("0.530 " * 5, "0.479 " * 5),
        "fuzzy-cmeans": ("0.519 " * 5, "0.502 " * 5),
        "kfed": ("0.508 0.488 0.452 0.455 0.414", "0.503 0.400 0.364 0.356 0.339"),
        "ffcm": ("0.516 0.526 0.469 0.486 0.537", "0.506 0.511 0.397 0.454 0.510"),
        "sda-fc-kmeans": ("0.513 0.503 0.512 0.520 0.527", "0.498 0.478 0.488 0.493 0.500"),
        "sda-fc-fuzzy": ("0.514 0.506 0.506 0.514 0.514", "0.511 0.503 0.497 0.502 0.506"),
        "ppfc-gan": ("0.658 0.639 0.672 0.743 0.835", "0.613 0.577 0.601 0.689 0.788"),
        "ccfc": ("0.924 0.815 0.672 0.361 0.077", "0.962 0.831 0.653 0.331 0.091"),
    },
    "fashion_mnist": {
        "kmeans": ("0.607 " * 5, "0.478 " * 5),
        "fuzzy-cmeans": ("0.603 " * 5, "0.521 " * 5),
        "kfed": ("0.593 0.573 0.614 0.524 0.545", "0.466 0.522 0.495 0.424 0.392"),
        "ffcm": ("0.579 0.600 0.617 0.614 0.586", "0.497 0.518 0.497 0.500 0.467"),
        "sda-fc-kmeans": ("0.595 0.605 0.606 0.608 0.607", "0.464 0.476 0.483 0.477 0.483"),
        "sda-fc-fuzzy": ("0.603 0.566 0.602 0.579 0.603", "0.525 0.496 0.526 0.496 0.532"),
        "ppfc-gan": ("0.609 0.598 0.578 0.610 0.647", "0.486 0.472 0.455 0.477 0.575"),
        "ccfc": ("0.624 0.571 0.602 0.486 0.121", "0.641 0.526 0.593 0.395 0.143"),
    },
    "cifar10": {
        "kmeans": ("0.087 " * 5, "0.135 " * 5),
        "fuzzy-cmeans": ("0.082 " * 5, "0.144 " * 5),
        "kfed": ("0.082 0.087 0.089 0.082 0.088", "0.131 0.137 0.125 0.130 0.115"),
        "ffcm": ("0.081 0.083 0.087 0.084 0.083", "0.144 0.149 0.132 0.120 0.124"),
        "ccfc": ("0.245 0.209 0.209 0.119 0.064", "0.285 0.228 0.221 0.121 0.105"),
    },
}
"""NMI and kappa for the shares of `SHARES`, rounded."""

Cell = tuple[str, str, str]
Runs = dict[Cell, dict[str, list[Path]]]


def main() -> None:
    """Run some cells, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--data", nargs="+", default=["mnist"])
    parser.add_argument("--methods", nargs="+", default=["kmeans", "fuzzy-cmeans", "kfed", "ffcm", "kin-graph"])
    parser.add_argument("--heterogeneity", "-p", "--shares", dest="shares", nargs="+", default=SHARES)
    parser.add_argument("--absent", nargs="+", default=["0"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--label", default="", help="name of the line, instead of the method's")
    parser.add_argument("--set", nargs="*", default=[], help="more keys of the experiment, as of `fedkin run`")
    given = parser.parse_args()
    if given.what == "show":
        show(given.runs)
        return
    for seed in given.seeds:
        for data in given.data:
            for method in given.methods:
                for share in given.shares:
                    for absent in given.absent:
                        name = f"{data}-{given.label or method}-p{share}-a{absent}-s{seed}"
                        settings = {
                            "seed": seed, "data.source": data, "scenario.name": "own-class",
                            "scenario.heterogeneity": float(share), "engine.absent": float(absent),
                            "evaluation.map": "none",
                        }  # fmt: skip
                        run(given.runs / name, method, settings, given.set)


def show(runs: Path) -> None:
    """Print NMI and kappa by heterogeneity, what else was found, and what it cost, as Markdown tables."""
    found: Runs = defaultdict(lambda: defaultdict(list))
    for folder in sorted(path.parent for path in runs.glob("*/result.json")):
        match = re.fullmatch(r"(\w+?)-(.+)-p([\d.]+)-a([\d.]+)-s\d+", folder.name)
        if match:
            found[match[1], match[2], match[4]][match[3]].append(folder)
    for measure, position in (("nmi", 0), ("kappa", 1)):
        head = " | ".join(f"p = {share}" for share in SHARES)
        print(f"\n**{measure.upper() if measure == 'nmi' else measure}**, ours; the paper's in brackets\n")
        print(f"| data | method | absent | part of the data | seeds | {head} |\n{'|---' * 10}|")
        for (data, line, absent), by_share in found.items():
            paper = PAPER.get(data, {}).get(line, ("", ""))[position].split() or ["–"] * len(SHARES)
            cells = [
                f"{spread([_last(folder)['metrics'][measure] for folder in by_share[share]], 3)} ({theirs})"
                if share in by_share else "–"
                for share, theirs in zip(SHARES, paper, strict=True)
            ]  # fmt: skip
            some = next(iter(by_share.values()))
            fraction = f"{load_config(some[0] / CONFIG).scenario.fraction:g}"
            print(f"| {data} | {line} | {absent} | {fraction} | {_seeds(by_share)} | {' | '.join(cells)} |")
    print(f"\n| data | method | absent | clusters | steps | MB | seconds |\n{'|---' * 7}|")
    for (data, line, absent), by_share in found.items():
        folders = [folder for share in sorted(by_share) for folder in by_share[share]]
        print(f"| {data} | {line} | {absent} | {' | '.join(_costs(folders))} |")


def _last(folder: Path) -> dict[str, Any]:
    return records(folder)[-1]


def _seeds(by_share: dict[str, list[Path]]) -> str:
    counts = {len(folders) for folders in by_share.values()}
    return str(counts.pop()) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"


def _costs(folders: list[Path]) -> list[str]:
    clusters = [json.loads((folder / "result.json").read_text())["result"]["n_clusters"] for folder in folders]
    lines = [_last(folder) for folder in folders]
    return [
        str(clusters[0]) if len(set(clusters)) == 1 else f"{min(clusters)} to {max(clusters)}",
        f"{mean(line['step'] for line in lines):.0f}",
        f"{mean((line['sent'] + line['received']) / 1e6 for line in lines):.1f}",
        f"{mean(sum(seconds(folder)) for folder in folders):.0f}",
    ]


if __name__ == "__main__":
    main()
