"""How well nearest neighbours tell classes by what a run's network makes of samples (CCFC, table 3).

``python benchmarks/latents.py RUN --neighbours 3 100 1000``

RUN is the folder of a finished run. Sites' samples are pooled, and a seventh of them, drawn by the run's seed, is
judged by the majority among its nearest neighbours in the rest: the training and test samples of the data were mixed
when sites got theirs. One row for the run's representation and one for the samples as they are, both by cosine.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor

from fedkin.config import load_config
from fedkin.core.seeds import derive_generator
from fedkin.outputs import load_found

_HELD_OUT = 7
_PART = 500


def main() -> None:
    """Print one row per representation, one column per number of neighbours."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--neighbours", type=int, nargs="+", default=[3, 100, 1000])
    options = parser.parse_args()
    found, config = load_found(options.run), load_config(options.run / "config.toml")
    population = config.scenario.build(config.seed)
    if population.truth is None:
        raise SystemExit(f"{options.run} has no classes to judge by.")
    x, y = found.scaling.apply(torch.cat([client.x for client in population.clients])), torch.cat(population.truth)
    held_out = torch.zeros(len(y), dtype=torch.bool)
    chosen = torch.randperm(len(y), generator=derive_generator(config.seed, "held out"))[: len(y) // _HELD_OUT]
    held_out[chosen] = True
    print("| representation | " + " | ".join(f"k = {k}" for k in options.neighbours) + " |")
    print("|---" * (1 + len(options.neighbours)) + "|")
    for name, points in (("samples", x.flatten(1)), (found.name, found.method.embed(found.result, x))):
        row = accuracies(points, y, held_out, options.neighbours)
        print(f"| {name} | " + " | ".join(f"{100 * accuracy:.2f}" for accuracy in row) + " |")


def accuracies(points: Tensor, y: Tensor, held_out: Tensor, neighbours: list[int]) -> list[float]:
    """Share of the samples held out that the majority of their neighbours is right about.

    Parameters
    ----------
    points : Tensor
        float32 ``(n, width)``; compared by cosine.
    y : Tensor
        int64 ``(n,)``.
    held_out : Tensor
        bool ``(n,)``, who is judged; the others are the neighbours.
    neighbours : list of int
        How many; more than there are count as all. The lowest class wins a tie.
    """
    points = torch.nn.functional.normalize(points, dim=1)
    known, classes = points[~held_out], y[~held_out]
    right = torch.zeros(len(neighbours))
    for part, truth in zip(points[held_out].split(_PART), y[held_out].split(_PART), strict=True):
        nearest = classes[(part @ known.T).topk(min(max(neighbours), len(known)), dim=1).indices]
        for at, k in enumerate(neighbours):
            votes = torch.zeros(len(part), int(y.max()) + 1)
            votes.scatter_add_(1, nearest[:, :k], torch.ones(1, 1).expand(len(part), min(k, nearest.shape[1])))
            right[at] += float((votes.argmax(1) == truth).sum())
    return [float(share) for share in right / int(held_out.sum())]


if __name__ == "__main__":
    main()
