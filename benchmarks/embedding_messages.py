"""Clusters found by the messages of `embedding`, by kind of message, rule, budget, samples per client and width.

``python benchmarks/embedding_messages.py run OUT.jsonl --data mnist --encoder fashion.safetensors`` clusters clients of
every scenario with every way and seed, and appends one line each; what is there already is not run again. ``show
OUT.jsonl`` prints mean ARI, its standard deviation over seeds, and the numbers of clusters found, as Markdown.
``pretrain ENCODER --data fashion-mnist --width 10`` trains an encoder of another width.

Scenarios are ``KIND-CLIENTS-SAMPLES``, such as ``rotation-8-300``. Ways:

* ``exact``, ``gap``, ``bayes``: bits, flipped with probability 0.1, cut so.
* ``halves``: two such messages of each client, of two halves of its samples; a tree of their means is cut above the
  height of trees of the halves' differences. It is not part of the library.
* ``sums-EPSILON``: class sums with noise for one sample.
* ``client-EPSILON``: the means of these classes as one vector of length 1, with noise for the client as a whole,
  in k-means with the true number of clusters. It is not part of the library.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor, nn
from torch.nn.functional import normalize

from fedkin.clustering.metrics import adjusted_rand
from fedkin.clustering.nearest_means import joined, refined
from fedkin.clustering.ward import top_height, ward_tree
from fedkin.core import Client
from fedkin.core.seeds import derive_generator
from fedkin.data.population import Population
from fedkin.data.scenarios.label_clusters import LabelClusters
from fedkin.data.scenarios.partition_scenario import PartitionScenario, load_labelled
from fedkin.data.scenarios.planted import LabelFlip, Rotation
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.methods.clients.embedding.class_sums import ClassMeans
from fedkin.methods.clients.embedding.embedding import EmbeddingMethod, true_bits
from fedkin.nn import encoder as encoders
from fedkin.nn.encoder import Encoder
from fedkin.nn.networks import linear_layers
from fedkin.privacy.gaussian import gaussian_mu
from fedkin.privacy.randomised_response import flipped
from fedkin.studies.pretrain import pretrain
from grid import json_lines

FLIP, DELTA = 0.1, 1e-5
_USUAL = 20
KINDS: dict[str, dict[str, Any]] = {
    "rotation": {"of": Rotation},
    "skewed-rotation": {"of": Rotation, "alpha": 0.5},
    "label-flip": {"of": LabelFlip},
    "ten-flips": {"of": LabelFlip, "n_clusters": 10},
    "label-clusters": {"of": LabelClusters},
    "overlapping": {"of": LabelClusters, "overlap": True},
    "alike": {"of": Rotation, "angles": [0]},
    "skewed": {"of": Rotation, "angles": [0], "alpha": 0.5},
}
"""Scenarios by the first part of their names; in the last two there is one cluster."""
SCENARIOS = [
    "rotation-8-300", "rotation-20-300", "ten-flips-20-300", "label-clusters-6-300", "label-clusters-15-300",
    "overlapping-15-300", "label-flip-20-30", "skewed-rotation-20-300", "alike-8-300", "alike-20-300",
]  # fmt: skip
WAYS = ["bayes", "gap", "exact", "halves", "sums-2", "sums-4", "sums-8", "sums-20"]


def main() -> None:
    """Run or show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "show", "pretrain"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--data", nargs="+", default=["digits"])
    parser.add_argument("--encoder", help="file; without one, the clients train it")
    parser.add_argument("--width", type=int, default=_USUAL, help="numbers of a code of the encoder")
    parser.add_argument("--epochs", type=int, default=3, help="of training an encoder")
    parser.add_argument("--scenarios", nargs="+", default=SCENARIOS)
    parser.add_argument("--ways", nargs="+", default=WAYS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    options = parser.parse_args()
    if options.what == "show":
        print(table(json_lines(options.file)))
        return
    if options.what == "pretrain":
        pretrain(options.data[0], options.file, name=autoencoder(options.width), epochs=options.epochs)
        return
    for data in options.data:
        run(options, data)


def run(options: argparse.Namespace, data: str) -> None:
    """Append what is missing."""
    labelled = load_labelled(data)
    common = {"data": data, "encoder": Path(options.encoder).stem if options.encoder else None, "width": options.width}
    lines = json_lines(options.file)
    known = [{name: value for name, value in line.items() if name not in ("ari", "found")} for line in lines]
    for seed in options.seeds:
        for name in options.scenarios:
            keys = [common | {"scenario": name, "seed": seed, "way": way} for way in options.ways]
            missing = [key for key in keys if key not in known]
            population = scenario(name).partition(labelled, seed) if missing else None
            for key in missing:
                assert population is not None
                labels = clusters_by(key["way"], population, seed, options.encoder, options.width)
                assert population.clusters is not None
                score = adjusted_rand(population.clusters.numpy(), labels)
                with options.file.open("a") as file:
                    file.write(json.dumps(key | {"ari": round(score, 4), "found": len(set(labels.tolist()))}) + "\n")


def scenario(name: str) -> PartitionScenario:
    """The scenario of a name ``KIND-CLIENTS-SAMPLES``."""
    kind, clients, samples = name.rsplit("-", 2)
    settings = dict(KINDS[kind])
    made: PartitionScenario = settings.pop("of")(clients=int(clients), samples_per_client=int(samples), **settings)
    return made


def autoencoder(width: int) -> str:
    """The name of the autoencoder with codes of so many numbers, which becomes known here."""
    if width == _USUAL:
        return "auto"

    def dense(shape: Sequence[int], output: encoders.Output = "sigmoid") -> encoders.Autoencoding:
        features = math.prod(shape)
        down, up = linear_layers((features, 50, width)), linear_layers((width, 50, features))
        last = [*up, *encoders.last_layers(output), nn.Unflatten(1, tuple(shape))]
        return encoders.Autoencoding(nn.Sequential(nn.Flatten(), *down), nn.Sequential(*last))

    encoders._FACTORIES[f"dense-{width}"] = dense
    return f"dense-{width}"


def clusters_by(way: str, population: Population, seed: int, encoder: str | None, width: int) -> np.ndarray:
    """Clusters of the clients ``(n,)``."""
    kind, _, epsilon = way.partition("-")
    settings: dict[str, Any] = {"clustering": kind, "flip": FLIP} if kind in ("exact", "gap", "bayes") else {}
    if kind in ("sums", "client"):
        settings = {"message": "sums", "epsilon": float(epsilon), "delta": DELTA}
    method = EmbeddingMethod(encoder=encoder, autoencoder=autoencoder(width), **settings)
    fed = LocalFederation(population.clients, seed)
    with one_thread():
        state = method.init(fed)
        while not state.messages.numel() and (kind != "halves" or state.steps < method.pretraining):
            state, _ = method.step(fed, state)
    if kind == "halves":
        return by_halves(population.clients, state, method.smallest(len(population.clients)), seed)
    if kind == "client":
        return by_whole_vectors(population, state, float(epsilon), seed)
    return np.asarray(state.labels)


def by_halves(clients: Iterable[Client], state: Any, min_size: int, seed: int) -> np.ndarray:
    """Clusters by two messages of each client."""
    how = {"encoder": state.encoder, "vector": state.vector, "segments": state.segments, "form": "classes"}
    how |= {"normalise": "segment", "batch_statistics": False}
    messages = []
    for client in clients:
        rng, halves = derive_generator(seed, "halves", client.id), []
        for rows in _halves(client, rng):
            assert client.y is not None
            bits, _ = true_bits(Client.unseen(client.x[rows], client.y[rows], rng), how)
            halves.append(flipped(bits.flatten(), FLIP, rng))
        messages.append(torch.stack(halves))
    sent = torch.stack(messages).double().numpy()
    points, noise = sent.mean(1), (sent[:, 0] - sent[:, 1]) / 2
    draws, tree = np.random.default_rng(seed), ward_tree(points)
    level = 1.02 * max(top_height(noise * draws.choice([-1, 1], (len(noise), 1))) for _ in range(20))
    # Of the clients' own noise, what flips do not cause counts more.
    own = 1 - FLIP * (1 - FLIP) / max(2 * float((noise**2).mean()), 1e-9)
    splits = tree.splits(min_size)
    above = splits[tree.heights[splits] > level * math.sqrt(1 + 0.4 * min(1.0, max(0.0, own)))]
    if not len(above):
        return np.zeros(len(points), dtype=np.int64)
    return refined(points, joined(points, tree.divided(above, min_size)), min_size)


def _halves(client: Client, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rows of either half, each with half of every class."""
    assert client.y is not None
    first = torch.zeros(len(client), dtype=torch.bool)
    for label in client.y.unique():
        rows = (client.y == label).nonzero()[:, 0]
        rows = rows[torch.randperm(len(rows), generator=rng)]
        more = int(torch.randint(2, (1,), generator=rng)) if len(rows) % 2 else 0
        first[rows[: len(rows) // 2 + more]] = True
    return first.nonzero()[:, 0], (~first).nonzero()[:, 0]


def by_whole_vectors(population: Population, state: Any, epsilon: float, seed: int) -> np.ndarray:
    """Clusters by one vector of each client, with noise for all of its data, given the number of clusters."""
    how = {"encoder": state.encoder, "vector": state.vector}
    width, exact = Encoder.of(state.encoder).width, []
    for client in population.clients:
        codes = normalize(Encoder.of(how["encoder"]).codes(how["vector"], client.x).double(), dim=1) - state.centre
        assert client.y is not None
        rows = torch.cat([codes / state.radius, torch.full((len(codes), 1), 0.5)], 1)
        exact.append(torch.zeros(state.segments, width + 1).double().index_add_(0, client.y, rows).flatten())
    means = ClassMeans.of(torch.stack(exact), state.segments, 0.0).means
    vectors = normalize(torch.from_numpy(means - means.mean(0)).flatten(1), dim=1)
    noise = torch.randn(vectors.shape, generator=derive_generator(seed, "noise"), dtype=torch.float64)
    sent = vectors + 2 / gaussian_mu(epsilon, DELTA) * noise
    assert population.clusters is not None
    return KMeans(len(population.clusters.unique()), n_init=10, random_state=0).fit_predict(sent.numpy())


def table(lines: list[dict[str, Any]]) -> str:
    """Mean ARI, its standard deviation, and the numbers of clusters found, by data and scenario, and by way."""
    ways = list(dict.fromkeys(line["way"] for line in lines))
    rows = [f"| data, width | scenario | {' | '.join(ways)} |", "|---" * (len(ways) + 2) + "|"]
    for data, width, name in dict.fromkeys((line["data"], line["width"], line["scenario"]) for line in lines):
        cells = []
        for way in ways:
            own = [
                line for line in lines
                if (line["data"], line["width"], line["scenario"], line["way"]) == (data, width, name, way)
            ]  # fmt: skip
            cells.append(_cell(own) if own else "")
        rows.append(f"| {data}, {width} | {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(lines: list[dict[str, Any]]) -> str:
    scores, found = [line["ari"] for line in lines], sorted({line["found"] for line in lines})
    numbers = f"{found[0]}" if len(found) == 1 else f"{found[0]}-{found[-1]}"
    return f"{np.mean(scores):.2f} ± {np.std(scores):.2f} ({numbers})"


if __name__ == "__main__":
    main()
