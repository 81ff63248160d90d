"""Where does CCFC end if its authors' own code trains it, at a length that two cores can afford?

    git clone https://github.com/Jarvisyan/CCFC-pytorch theirs
    python benchmarks/ccfc_ends.py run theirs LINES.jsonl --fraction 0.1 --batch 16
    python benchmarks/ccfc_views.py run RUNS --fraction 0.1 --batch 16 --rounds 100 30 --model-weight 0.001 --every 10 \
        --views pillow --starts own --seeds 0 1
    python benchmarks/ccfc_ends.py show LINES.jsonl RUNS

Their ``main.py`` runs unmodified, whole, with its 100 rounds by views and 30 by clusters, on the images of MNIST that
fedkin's run of seed 0 has; torchvision's few transforms are those of `ccfc_round.py`. They divide the images over ten
clients themselves. A line of JSON is appended for every round: phase, round, NMI and Cohen's kappa of their clusters,
and seconds since the start. After the rounds by views it clusters once more, by a fresh k-means: that is round 0 of the
phase ``clusters``. ``show`` prints NMI and kappa of every tenth round beside those of fedkin's runs, as far as they
came.

On a GPU, which their code takes if there is one, ``--at-once`` has the loaders of `ccfc_loader.py`, for theirs would be
waited for; and in the rounds by views it leaves out nine of ten k-means, of which nothing but what is logged depends.
"""

from __future__ import annotations

import argparse
import importlib
import json
import runpy
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ccfc_loader import loader_of
from ccfc_round import _module, _torchvision
from ccfc_theirs import _mnist
from fedkin.clustering.metrics import cohen_kappa, normalized_mutual_information
from fedkin.data.scenarios.own_class import OwnClass
from grid import json_lines, records

VIEW_ROUNDS, EVERY = 100, 10
LEFT_OUT = object()
"""In place of centroids that nobody looks at."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run their code to its end, or show what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    running = what.add_parser("run")
    running.add_argument("theirs", type=Path, help="folder with the authors' code")
    running.add_argument("lines", type=Path, help="file that lines are appended to")
    running.add_argument("--fraction", type=float, default=0.1, help="part of MNIST's 70,000 images")
    running.add_argument("--batch", type=int, default=16)
    running.add_argument("--heterogeneity", type=float, default=0.0)
    running.add_argument("--at-once", action="store_true", help="whole batches on the device, few k-means")
    showing = what.add_parser("show")
    showing.add_argument("lines", type=Path)
    showing.add_argument("runs", type=Path)
    given = parser.parse_args(arguments)
    if given.what == "run":
        run(given)
    else:
        print("\n".join(table(given.lines, given.runs)))


def run(given: argparse.Namespace) -> None:
    """Run their code to its end."""
    code = their_code(given.theirs, *images(given.fraction), at_once=given.at_once)
    code.clustering_by_cosine_similarity = scored(code.clustering_by_cosine_similarity, given.lines)
    if given.at_once:
        code.get_global_centroids = now_and_then(code.get_global_centroids)
    with tempfile.TemporaryDirectory() as outputs:
        run_theirs(given.theirs, outputs, given.batch, given.heterogeneity)


def their_code(theirs: Path, x: Tensor, y: Tensor, at_once: bool = False) -> Any:
    """Return the module of their model, which finds these images and digits as MNIST."""
    torch.set_num_threads(8 if at_once else 1)
    sys.modules |= {"tqdm": _module("tqdm", tqdm=_Silent), **_torchvision(1)}
    sys.modules["torchvision.datasets"].MNIST = _mnist(x, y)  # type: ignore[attr-defined]
    sys.path.insert(0, str(theirs.resolve()))
    code = importlib.import_module("model")
    if at_once:
        code.DataLoader = loader_of(x)
    return code


def now_and_then(centre: Callable[..., Any]) -> Callable[..., Any]:
    """Their k-means of all clients' latents, in every tenth round by views and in all later ones; else nothing."""
    calls = 0

    def centred(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        return centre(*given) if calls % EVERY == 0 or calls > VIEW_ROUNDS else LEFT_OUT

    return centred


def run_theirs(theirs: Path, outputs: str, batch: int, heterogeneity: float) -> None:
    """Run their ``main.py``, which begins with the rounds by clusters if the folder has a model after the views."""
    sys.argv = ["main.py", "--exp_dir", outputs, "--data_root", outputs, "--num_workers", "0"]
    sys.argv += ["--batch_size", str(batch), "--p", str(heterogeneity)]
    runpy.run_path(str(theirs / "main.py"), run_name="__main__")


def images(fraction: float) -> tuple[Tensor, Tensor]:
    """The images ``(n, 1, 28, 28)`` and digits ``(n,)`` that a run of fedkin has with seed 0, in no order."""
    population = OwnClass(heterogeneity=0.0, fraction=fraction, data="mnist").build(0)
    assert population.truth is not None
    x, y = torch.cat([client.x for client in population.clients]), torch.cat(population.truth)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return x[order], y[order]


def scored(cluster: Callable[..., Any], path: Path) -> Callable[..., Any]:
    """Their way to cluster all samples, which is called after every round, with a line for what it finds."""
    began, calls = time.perf_counter(), 0

    def clustered(loader: Any, common: Any, centroids: Any, truth: Any, device: Any) -> Any:
        nonlocal calls
        if centroids is LEFT_OUT:
            calls += 1
            return None, 0.0, 0.0
        result = cluster(loader, common, centroids, truth, device)
        phase, at = ("views", calls + 1) if calls < VIEW_ROUNDS else ("clusters", calls - VIEW_ROUNDS)
        scores = {"nmi": normalized_mutual_information(truth, result[0]), "kappa": cohen_kappa(truth, result[0])}
        line = {"phase": phase, "round": at, **scores, "seconds": round(time.perf_counter() - began)}
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        calls += 1
        return result

    return clustered


def table(lines: Path, runs: Path) -> list[str]:
    """NMI / kappa of every tenth round of theirs and of every run, as a Markdown table."""
    folders = sorted(path.parent for path in runs.glob("*/records.jsonl"))
    found = {"authors' code": {(line["phase"], line["round"]): line for line in json_lines(lines)}}
    found |= {folder.name: dict(_of_run(folder)) for folder in folders}
    rounds = [("views", at) for at in range(EVERY, VIEW_ROUNDS + 1, EVERY)]
    rounds += [("clusters", at) for at in range(EVERY, 31, EVERY)]
    shown = [f"| round | {' | '.join(found)} |", "|---" * (1 + len(found)) + "|"]
    for phase, at in rounds:
        scores = [own.get((phase, at)) for own in found.values()]
        cells = ["–" if score is None else f"{score['nmi']:.3f} / {score['kappa']:.3f}" for score in scores]
        shown.append(f"| {phase}, {at} | {' | '.join(cells)} |")
    return shown


def _of_run(folder: Path) -> Iterator[tuple[tuple[str, int], dict[str, float]]]:
    """The metrics of a run's rounds, by phase and round in it."""
    before = {"views": 0, "clusters": VIEW_ROUNDS}
    for line in records(folder):
        if "nmi" in line["metrics"]:
            phase = line["values"]["phase"]
            yield (phase, line["step"] - before[phase]), line["metrics"]


class _Silent(list[Any]):
    """In place of a progress bar."""

    def __init__(self, batches: Iterable[Any]) -> None:
        self.batches = batches

    def __iter__(self) -> Any:
        return iter(self.batches)

    def set_description(self, text: str) -> None:
        """Nobody looks."""


if __name__ == "__main__":
    main()
