"""What CCFC's views and starts make of it: clusters of a part of MNIST by views and by where clients begin.

    python benchmarks/ccfc_views.py run RUNS --seeds 0 1
    python benchmarks/ccfc_views.py run RUNS --full --views pillow --starts own --seeds 0 1 2 --device cuda --tf32
    python benchmarks/ccfc_views.py show RUNS
    python benchmarks/ccfc_views.py measure

Views are ``affine``, one map with one interpolation, or ``pillow``, to the pixel those of the authors' code; starts are
``own``, a seed for every client, or ``common``, one seed for all. Every run is alike otherwise: the losses are those of
the code, and the model-contrastive term, whose weight is 0.001 in the paper, is left out, which saves a quarter of the
time. With ``--full`` it is there, on all of MNIST, with the authors' rounds and batches: 5 hours of a core for a run.
Runs are ordinary folders in RUNS, one thread each, all cells of a seed before the next seed, and are resumed or skipped
if they are there already. The best round is the best of those by clusters that are scored, every fifth with ``--full``:
what choosing a round by the truth would give.

``measure`` prints what two views of 3,000 digits are like: their cosine, the mean absolute Laplacian of a view, and the
fraction of the area that is kept.
"""

from __future__ import annotations

import argparse
import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv2d, cosine_similarity

from fedkin.data.scenarios.partition_scenario import load_labelled
from fedkin.methods.samples.ccfc.augmentation import Augmentation, augmentation_for, crop_boxes, drawn_crops
from grid import records, run

VIEWS, STARTS = ("affine", "pillow"), ("common", "own")
FULL = {
    "scenario.fraction": 1.0, "method.pretrain_rounds": 100, "method.cluster_rounds": 30, "method.batch_size": 128,
    "method.model_weight": 0.001, "evaluation.every": 5, "engine.keep_checkpoints": 100,
}  # fmt: skip
LAPLACIAN = torch.tensor([[[[0.0, 1, 0], [1, -4, 1], [0, 1, 0]]]])


def main() -> None:
    """Run some cells, print the table, or measure views."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "show", "measure"])
    parser.add_argument("runs", type=Path, nargs="?", default=Path("runs/ccfc-views"))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--views", nargs="+", choices=VIEWS, default=VIEWS)
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=STARTS)
    parser.add_argument("--fraction", type=float, default=0.03, help="part of MNIST's 70,000 images")
    parser.add_argument("--rounds", nargs=2, type=int, default=[40, 10], help="by views and by clusters")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--heterogeneity", nargs="+", type=float, default=[0.0])
    parser.add_argument("--model-weight", type=float, default=0.0, help="of the model-contrastive term")
    parser.add_argument("--decorrelation", type=float, default=0.0, help="weight of the term against collapse")
    parser.add_argument("--guide", choices=["latents", "kin-graph"], default="latents", help="clusters to learn from")
    parser.add_argument("--every", type=int, help="rounds until clusters are scored; all by clusters if not given")
    parser.add_argument("--full", action="store_true", help="all data and rounds, batches of 128")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tf32", action="store_true", help="round factors of products on a GPU")
    given = parser.parse_args()
    if given.what == "run":
        for seed, p, views, start in product(given.seeds, given.heterogeneity, given.views, given.starts):
            cell = settings(seed, views, start, given.fraction, given.rounds, given.batch) | (
                FULL if given.full else {}
            )
            cell |= {"scenario.heterogeneity": p, "engine.device": given.device, "engine.tf32": given.tf32}
            cell |= {} if given.full else {"method.model_weight": given.model_weight}
            cell |= {"method.decorrelation": given.decorrelation, "method.guide": given.guide}
            cell |= {"evaluation.every": given.every} if given.every else {}
            run(given.runs / f"{views}-{start}-p{p:g}-s{seed}", "ccfc", cell)
        print(json.dumps(ends(given.runs)))
    elif given.what == "show":
        print("\n".join(table(given.runs)))
    else:
        print("\n".join(measured(mnist(3000))))


def settings(seed: int, views: str, start: str, fraction: float, rounds: list[int], batch: int) -> dict[str, Any]:
    """One cell, as keys of an experiment."""
    return {
        "seed": seed, "data.source": "mnist", "scenario.name": "own-class", "scenario.heterogeneity": 0.0,
        "scenario.fraction": fraction, "method.views": views, "method.start": start, "method.form": "code",
        "method.model_weight": 0.0, "method.pretrain_rounds": rounds[0], "method.cluster_rounds": rounds[1],
        "method.batch_size": batch, "evaluation.map": "none", "evaluation.every": rounds[1] or 1, "engine.workers": 1,
    }  # fmt: skip


def table(runs: Path) -> list[str]:
    """NMI and kappa of every run after the views and at the end, as far as it came, as a Markdown table."""
    head = ["views", "start", "p", "seed", "NMI after views", "kappa", "NMI at the end", "kappa", "best round"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for folder, names in cells(runs):
        last = scored(folder)
        found = [
            f"{last[phase][-1][measure]:.3f}" if phase in last else "–"
            for phase, measure in product(("views", "clusters"), ("nmi", "kappa"))
        ]
        best = f"{max(one['nmi'] for one in last['clusters']):.3f}" if "clusters" in last else "–"
        lines.append(f"| {' | '.join([*names, *found, best])} |")
    return lines


def ends(runs: Path) -> dict[str, float]:
    """NMI of every run as it is now, by name."""
    found = {folder.name: scored(folder) for folder, _ in cells(runs)}
    return {name: list(last.values())[-1][-1]["nmi"] for name, last in found.items() if last}


def cells(runs: Path) -> list[tuple[Path, tuple[str, ...]]]:
    """The folders of runs that have begun, and their views, start, p and seed."""
    folders = sorted(path.parent for path in runs.glob("*/records.jsonl"))
    matches = [(folder, re.fullmatch(r"(\w+)-(\w+)-p([0-9.]+)-s(\d+)", folder.name)) for folder in folders]
    return [(folder, match.groups()) for folder, match in matches if match]


def scored(folder: Path) -> dict[str, list[dict[str, float]]]:
    """The metrics of all rounds that have some, by phase."""
    found: dict[str, list[dict[str, float]]] = {}
    for line in records(folder):
        if "nmi" in line.get("metrics", {}):
            found.setdefault(line["values"]["phase"], []).append(line["metrics"])
    return found


def mnist(count: int) -> Tensor:
    """The first images of MNIST, float32 ``(count, 1, 28, 28)`` in [0, 1]."""
    return load_labelled("mnist").x[:count]


def measured(x: Tensor) -> list[str]:
    """Cosine, Laplacian and area of two views of each image, as a Markdown table."""
    lines = ["| views | cosine of two | mean absolute Laplacian | area kept |", "|---" * 4 + "|"]
    for views in VIEWS:
        how, rng = augmentation_for(tuple(x.shape[1:]), views=views), torch.Generator().manual_seed(0)
        first, second = (how.apply(x, how.draw(x.shape, rng)) for _ in range(2))
        cosine = cosine_similarity(first.flatten(1), second.flatten(1)).mean()
        edges = conv2d(first, LAPLACIAN, padding=1).abs().mean()
        lines.append(f"| {views} | {cosine:.3f} | {edges:.4f} | {area(how, x, rng):.3f} |")
    return lines


def area(how: Any, x: Tensor, rng: torch.Generator) -> float:
    """Mean fraction of an image that a view keeps."""
    height, width = x.shape[2:]
    if isinstance(how, Augmentation):
        return float(how.kept(*drawn_crops(len(x), rng)).prod(0).mean())
    areas, ratios, corners, *_ = how.draw(x.shape, rng)
    left, top, right, bottom = crop_boxes(areas, ratios, corners, x.shape[2:], how.crop).T
    return float(((right - left) * (bottom - top)).double().mean()) / (height * width)


if __name__ == "__main__":
    main()
