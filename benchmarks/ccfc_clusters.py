"""CCFC's rounds by clusters from one model after the views: those of its authors' code beside fedkin's.

    git clone https://github.com/Jarvisyan/CCFC-pytorch theirs
    python benchmarks/ccfc_views.py run RUNS --fraction 0.1 --batch 16 --rounds 100 0 --model-weight 0.001 \
        --views pillow --starts own --seeds 1
    python benchmarks/ccfc_clusters.py LINES.jsonl RUNS/pillow-own-p0-s1 --theirs theirs --seeds 0 1 2
    python benchmarks/ccfc_clusters.py LINES.jsonl RUNS/pillow-own-p0-s1 --seeds 0 1 2

Both have the same images of MNIST, those of `ccfc_ends.py`, at random at ten clients, which each code divides itself.
Theirs runs unmodified from the model on; its draws after loading the model are of the seed, and of its own for seed 0.
``--at-once`` is for a GPU, as in `ccfc_ends.py`. In place of a run there may be a checkpoint after its views.
A line of JSON is appended for every round: whose, seed, round, NMI and Cohen's kappa; round 0 is before the first.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ccfc_ends import images, run_theirs, their_code
from ccfc_round import LATENT, _EnoughError
from ccfc_theirs import NETWORK
from fedkin.clustering.metrics import cohen_kappa, normalized_mutual_information
from fedkin.core import Client
from fedkin.core.payload import load_tree
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.ccfc.ccfc import CCFCMethod

CLIENTS = 10


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the rounds, of theirs if its folder is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", type=Path, help="file that lines are appended to")
    parser.add_argument("run", type=Path, help="folder of a run of fedkin that ended with the views")
    parser.add_argument("--at-once", action="store_true", help="whole batches on the device for their code")
    parser.add_argument("--theirs", type=Path, help="folder with the authors' code")
    parser.add_argument("--fraction", type=float, default=0.1, help="part of MNIST's 70,000 images")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    given = parser.parse_args(arguments)
    checkpoint = given.run / "checkpoint.safetensors" if given.run.is_dir() else given.run
    model = load_tree(checkpoint)["state"]["models"]["all"]
    x, y = images(given.fraction)
    for seed in given.seeds:
        if given.theirs:
            theirs(given, model, x, y, seed)
        else:
            ours(given, model, x, y, seed)


def theirs(given: argparse.Namespace, model: Tensor, x: Tensor, y: Tensor, seed: int) -> None:
    """Run their rounds from the model."""
    code = their_code(given.theirs, x, y, given.at_once)
    cluster, pretrain, calls = code.clustering_by_cosine_similarity, code.pretrain, 0

    def scored(loader: Any, common: Any, centroids: Any, truth: Any, device: Any) -> Any:
        nonlocal calls
        result = cluster(loader, common, centroids, truth, device)
        append(given.lines, "theirs", seed, calls, truth, result[0])
        calls += 1
        if calls > given.rounds:
            raise _EnoughError
        return result

    def seeded(*arguments: Any) -> Any:
        if seed:
            code.setup_seed(1000 + seed)
        return pretrain(*arguments)

    code.clustering_by_cosine_similarity, code.pretrain = scored, seeded
    sizes = argparse.Namespace(proj_hidden_dim=LATENT, num_proj_layers=2, latent_dim=LATENT, pre_hidden_dim=16)
    state = code.SimSiam(sizes).state_dict()
    names = [name for name in state if not name.startswith("projector.layer2.")]  # which is in no forward pass
    state |= dict(zip(names, NETWORK.module(model).state_dict().values(), strict=True))
    with tempfile.TemporaryDirectory() as outputs, suppress(_EnoughError):
        (Path(outputs) / "v0").mkdir()
        torch.save(state, Path(outputs) / "v0" / "model_pretrain_0.pt")
        run_theirs(given.theirs, outputs, given.batch, 0.0)
    code.clustering_by_cosine_similarity, code.pretrain = cluster, pretrain


def ours(given: argparse.Namespace, model: Tensor, x: Tensor, y: Tensor, seed: int) -> None:
    """Run fedkin's rounds from the model, with the losses and views of the code."""
    parts = np.array_split(np.arange(len(x)), CLIENTS)
    fed = LocalFederation([Client(at, x[part]) for at, part in enumerate(parts)], workers=1, seed=seed)
    method = CCFCMethod(
        pretrain_rounds=0, cluster_rounds=given.rounds, batch_size=given.batch, form="code", views="pillow"
    )
    state = method.init(fed)
    state = method._with_centroids(fed, replace(state, models={"all": model}), {})
    for at in range(given.rounds + 1):
        if at:
            state, _ = method.step(fed, state)
        append(given.lines, "fedkin", seed, at, y.numpy(), method.predict(method.result(state), x).numpy())


def append(path: Path, whose: str, seed: int, at: int, truth: Any, labels: Any) -> None:
    """Append a line on a round."""
    scores = {"nmi": normalized_mutual_information(truth, labels), "kappa": cohen_kappa(truth, labels)}
    with path.open("a") as file:
        file.write(json.dumps({"whose": whose, "seed": seed, "round": at, **scores}) + "\n")


if __name__ == "__main__":
    main()
