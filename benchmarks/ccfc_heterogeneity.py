"""What makes CCFC hold as clients differ: decorrelated latents (CCFC++), and clusters of kin-graph to learn from.

    python benchmarks/ccfc_heterogeneity.py run RUNS --variants plain decorrelated-0.1 --heterogeneity 0 0.5 1
    python benchmarks/ccfc_heterogeneity.py show RUNS

Variants are ``plain``, ``decorrelated-W`` with a weight W, ``guided`` (``guide = "kin-graph"``), and ``guided-W`` with
both. All have the losses and views of the authors' code and no model-contrastive term, which saves time. Runs are
ordinary folders in RUNS, one thread each, all cells of a seed before the next seed, and are resumed or skipped if they
are there already.

The last column says in how many dimensions the latents of the network vary at the end: the exponential of the entropy
of the eigenvalues of their covariance.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedkin.experiment.outputs import load_found
from fedkin.experiment.run_folder import run_config
from grid import records, run, spread

VARIANTS = ["plain", "decorrelated-0.1", "guided"]


def main() -> None:
    """Run some cells, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--fraction", type=float, default=1.0)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--heterogeneity", nargs="+", type=float, default=[0, 0.5, 1])
    parser.add_argument("--variants", nargs="+", default=VARIANTS)
    parser.add_argument("--rounds", nargs=2, type=int, default=[60, 20], help="by views and by clusters")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--backbone", default="auto")
    given = parser.parse_args()
    if given.what == "show":
        print("\n".join(table(given.runs)))
        return
    for seed, p, variant in product(given.seeds, given.heterogeneity, given.variants):
        chosen = {"data.source": given.data, "scenario.fraction": given.fraction, "method.batch_size": given.batch}
        chosen["method.backbone"] = given.backbone
        run(folder_of(given.runs, variant, p, seed), "ccfc", settings(variant, p, seed, given.rounds) | chosen)


def folder_of(runs: Path, variant: str, p: float, seed: int) -> Path:
    """Where the run of a cell is."""
    return runs / f"{variant}-p{p:g}-s{seed}"


def settings(variant: str, p: float, seed: int, rounds: list[int]) -> dict[str, Any]:
    """One cell, as keys of an experiment."""
    match = re.fullmatch(r"(plain|decorrelated|guided)(?:-([0-9.]+))?", variant)
    if not match:
        raise SystemExit(f"'{variant}' is no variant; there are plain, decorrelated-W, guided and guided-W.")
    changed: dict[str, Any] = {"method.decorrelation": float(match[2])} if match[2] else {}
    changed |= {"method.guide": "kin-graph"} if match[1] == "guided" else {}
    return {
        "seed": seed, "scenario.name": "own-class", "scenario.heterogeneity": p, "method.form": "code",
        "method.views": "pillow", "method.model_weight": 0.0, "method.pretrain_rounds": rounds[0],
        "method.cluster_rounds": rounds[1],
        "evaluation.map": "none", "evaluation.every": rounds[1] or 1, "engine.workers": 1, **changed,
    }  # fmt: skip


def table(runs: Path) -> list[str]:
    """NMI and kappa after the views and at the end, mean and spread over seeds, as a Markdown table."""
    found: dict[tuple[float, str], list[list[float]]] = defaultdict(list)
    for folder in sorted(path.parent for path in runs.glob("*/result.json")):
        if match := re.fullmatch(r"(.+)-p([0-9.]+)-s(\d+)", folder.name):
            last = {line["values"]["phase"]: line["metrics"] for line in records(folder) if "nmi" in line["metrics"]}
            figures = [last[phase][measure] for phase in ("views", "clusters") for measure in ("nmi", "kappa")]
            found[float(match[2]), match[1]].append([*figures, dimensions(latents(folder))])
    head = ["p", "variant", "seeds", "NMI after views", "kappa", "NMI at the end", "kappa", "dimensions"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for (p, variant), own in sorted(found.items()):
        values = [
            spread(column, digits) for column, digits in zip(zip(*own, strict=True), (3, 3, 3, 3, 1), strict=True)
        ]
        lines.append(f"| {p:g} | {variant} | {len(own)} | {' | '.join(values)} |")
    return lines


def latents(folder: Path) -> Tensor:
    """Of all samples of a finished run."""
    found, config = load_found(folder), run_config(folder)
    x = torch.cat([client.x for client in config.scenario.build(config.data_seed).clients])
    return found.method.embed(found.result, found.preparation.prepared(x))


def dimensions(points: Tensor) -> float:
    """The exponential of the entropy of the covariance's eigenvalues: 1 to the number of columns of ``(n, w)``."""
    values = torch.linalg.eigvalsh(torch.cov(points.double().T)).clamp_min(0)
    shares = values / values.sum()
    return float(torch.special.entr(shares).sum().exp())


if __name__ == "__main__":
    main()
