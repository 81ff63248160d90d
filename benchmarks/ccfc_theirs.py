"""Does CCFC train as the code of its authors does? Both take the same steps, and what comes of them is compared.

    git clone https://github.com/Jarvisyan/CCFC-pytorch theirs
    python benchmarks/ccfc_theirs.py theirs

Their ``main.py`` runs unmodified, with their division of the data, on the first images of MNIST, for some rounds by
views and some by clusters; torchvision's few transforms are those of `ccfc_round.py`. While it does, its first models,
every batch and the clusters that it finds are kept. Then fedkin trains ten clients on these batches for as many rounds,
each phase from their first models and from there by itself: with its own losses, network, batch norms, optimiser, and
mean of the clients.

Printed for every round is how far fedkin's weights are from theirs, relative to how far a round has moved theirs: the
largest of the ten clients, and that of the mean; the same of the variances that batch norms remember; and the fraction
of samples that both assign to the same one of their centroids. Adam makes full steps of gradients however small, so
that every step magnifies rounding: in brackets is how far fedkin is from itself where the first models differ in the
sixth digit. A last line for either phase has the gradient of the first client's first batch: how far both are from the
gradient of their module and their loss in double precision, relative to its length. The weight of the model-contrastive
term is theirs, 0.001, by clusters, and 0 by views, where its first anchor is another on purpose
(docs/fidelity/ccfc.md).
"""

from __future__ import annotations

import argparse
import copy
import runpy
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import normalize

from ccfc_round import LATENT, SITES, _EnoughError, _module, _torchvision
from fedkin.data.scenarios.partition_scenario import load_labelled
from fedkin.methods.samples.ccfc.contrastive import Contrastive, ContrastiveTraining, Design
from fedkin.nn.aggregation import Means
from fedkin.nn.descent import AdamMoments
from fedkin.nn.resident import vector_of

NETWORK = Contrastive.of(Design((1, 28, 28), latent=LATENT).decided().spec())
MODEL_WEIGHT = {"views": 0.0, "clusters": 0.001}

Batch = tuple[Any, Tensor]
"""Two views, or the images; and the rows of the data."""


@dataclass
class Found:
    """What their code found: a model, centroids ``(k, latent)``, and the cluster of every sample."""

    model: Tensor
    centroids: Tensor
    clusters: Tensor


@dataclass
class Seen:
    """What their code did in a phase.

    Attributes
    ----------
    start : list of Tensor
        The model that each client begins with.
    batches : list of list of list of Batch
        By round and client.
    clients : list of list of Tensor
        The model of each client after each round.
    found : list of Found
        After each round; by clusters also, at first, before the first.
    module : nn.Module
        Theirs, as the first client begins with it.
    code : module
        Theirs, which has the losses.
    weights : dict
        The state of their module at the end.
    """

    start: list[Tensor] = field(default_factory=list)
    batches: list[list[list[Batch]]] = field(default_factory=list)
    clients: list[list[Tensor]] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)
    module: nn.Module = field(default_factory=nn.Identity)
    code: Any = None


@dataclass
class Models:
    """Of each client, and their mean."""

    clients: list[Tensor]
    mean: Tensor


def main() -> None:
    """Print a table of both phases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("theirs", type=Path, help="folder with the authors' code")
    parser.add_argument("--samples", type=int, default=640, help="images, the first of MNIST")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--heterogeneity", type=float, default=0.0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    data = load_labelled("mnist")
    x, y = data.x[: given.samples], data.y[: given.samples]
    print("| phase | round | steps of a client | weights of clients | of the mean | variances | same cluster |")
    print("|---|---|---|---|---|---|---|")
    weights: dict[str, Tensor] = {}
    for phase in ("views", "clusters"):
        seen = theirs(given, phase, x, y, weights)
        weights = seen.weights
        first, second = ours(seen, phase, given.batch), ours(seen, phase, given.batch, apart=1e-6)
        for at, (own, other) in enumerate(zip(first, second, strict=True)):
            print(f"| {phase} | {at + 1} | {' | '.join(compared(seen, at, own, other, x))} |", flush=True)
        exact, theirs_own = (their_gradient(seen, phase, kind) for kind in (torch.float64, torch.float32))
        off = [float((one - exact).norm() / exact.norm()) for one in (gradient(seen, phase), theirs_own)]
        print(f"{phase}, first gradient: fedkin {off[0]:.1e}, theirs {off[1]:.1e}", flush=True)


def theirs(given: argparse.Namespace, phase: str, x: Tensor, y: Tensor, weights: dict[str, Tensor]) -> Seen:
    """The first rounds of a phase of their code; by clusters it begins with `weights`."""
    seen = Seen()
    sys.modules |= {"tqdm": _module("tqdm", tqdm=lambda batches: _kept(seen, batches)), **_torchvision(1)}
    sys.modules["torchvision.datasets"].MNIST = _mnist(x, y)  # type: ignore[attr-defined]
    sys.modules.pop("model", None)
    sys.path.insert(0, str(given.theirs.resolve()))
    import model as code  # type: ignore[import-not-found]

    seen.code = code
    made, centre, cluster = code.SimSiam, code.get_global_centroids, code.clustering_by_cosine_similarity

    def begun(*args: Any) -> nn.Module:
        module: nn.Module = made(*args)
        seen.start.append(flat(module))
        if len(seen.start) == 2:  # the first is the server's
            seen.module = copy.deepcopy(module)
        return module

    def centred(args: Any, nets: dict[str, Any], device: Any) -> Any:
        seen.clients.append([flat(nets[f"model_{i}"]) for i in range(SITES)])
        return centre(args, nets, device)

    def clustered(loader: Any, common: nn.Module, centroids: Any, *more: Any) -> Any:
        result = cluster(loader, common, centroids, *more)
        seen.found.append(Found(flat(common), normalize(torch.from_numpy(centroids).float(), dim=1), result[0]))
        seen.weights = {name: value.clone() for name, value in common.state_dict().items()}
        if not seen.batches:
            seen.module = copy.deepcopy(common)
        if len(seen.batches) == given.rounds:
            raise _EnoughError
        return result

    code.SimSiam, code.get_global_centroids, code.clustering_by_cosine_similarity = begun, centred, clustered
    with tempfile.TemporaryDirectory() as outputs, suppress(_EnoughError):
        if weights:
            (Path(outputs) / "v0").mkdir()
            torch.save(weights, Path(outputs) / "v0" / f"model_pretrain_{int(given.heterogeneity / 0.25)}.pt")
        sys.argv = ["main.py", "--exp_dir", outputs, "--data_root", outputs, "--num_workers", "0"]
        sys.argv += ["--batch_size", str(given.batch), "--p", str(given.heterogeneity)]
        sys.argv += ["--lbd", str(MODEL_WEIGHT[phase])]
        runpy.run_path(str(given.theirs / "main.py"), run_name="__main__")
    if phase == "views":
        seen.start = seen.start[1:]  # the first is the server's, which no client begins with
    else:
        seen.start = [seen.found[0].model] * SITES
        seen.clients = seen.clients[1:]
    return seen


class _Bar(list[Batch]):
    def set_description(self, text: str) -> None:
        """Nobody looks."""


def _kept(seen: Seen, batches: Any) -> _Bar:
    """In place of a progress bar: all batches of a client's round, which are drawn at once."""
    if not seen.batches or len(seen.batches[-1]) == SITES:
        seen.batches.append([])
    seen.batches[-1].append(_Bar(batches))
    own: _Bar = seen.batches[-1][-1]  # type: ignore[assignment]
    return own


def _mnist(x: Tensor, y: Tensor) -> type:
    """Images ``(n, 1, 28, 28)`` in [0, 1] as torchvision's data set: six sevenths for training, and the rest."""
    images, cut = (255 * x[:, 0]).round().to(torch.uint8).numpy(), len(x) * 6 // 7

    class Part(torch.utils.data.Dataset[Any]):
        def __init__(self, root: str, train: bool, download: bool, transform: Callable[[Image.Image], Any]) -> None:
            part = slice(0, cut) if train else slice(cut, None)
            self.data, self.targets, self.transform = images[part], y[part], transform

        def __len__(self) -> int:
            return len(self.data)

        def __getitem__(self, at: int) -> tuple[Any, int]:
            return self.transform(Image.fromarray(self.data[at])), int(self.targets[at])

    return Part


def flat(module: nn.Module) -> Tensor:
    """Their model as one of fedkin's; a layer that they never compute is left out."""
    own = NETWORK.build()
    values = [value for name, value in module.state_dict().items() if not name.startswith("projector.layer2.")]
    own.load_state_dict(dict(zip(own.state_dict(), values, strict=True)))
    return vector_of(own).clone()


def ours(seen: Seen, phase: str, batch: int, apart: float = 0.0) -> Iterator[Models]:
    """The models of fedkin after every round, on the batches seen, begun off by `apart`."""
    training = ContrastiveTraining(batch_size=batch, model_weight=MODEL_WEIGHT[phase], form="code")
    moments, rng = [AdamMoments.new(NETWORK.parameters) for _ in range(SITES)], torch.Generator().manual_seed(0)
    starts = [start * (1 + apart * torch.randn(start.shape, generator=rng)) for start in seen.start]
    for at, batches in enumerate(seen.batches):
        means, own = Means(1, NETWORK.size), []
        for client, parts in enumerate(batches):
            if phase == "views":
                own.append(by_views(starts[client], parts, moments[client], training))
            else:
                own.append(by_clusters(starts[client], parts, moments[client], training, seen.found[at].clusters))
            means.add(0, own[-1], sum(len(rows) for _, rows in parts), client)
        starts = [means.of(0)] * SITES
        yield Models(own, starts[0])


def by_views(start: Tensor, batches: Sequence[Batch], moments: AdamMoments, training: ContrastiveTraining) -> Tensor:
    """A client's model after a round by views that are given."""
    views = [view for pair, _ in batches for view in pair]

    class Given:
        def draw(self, shape: Sequence[int], rng: torch.Generator) -> tuple[Tensor, ...]:
            return ()

        def apply(self, x: Tensor, draws: tuple[Tensor, ...]) -> Tensor:
            return views.pop(0)

    x = torch.cat([pair[0] for pair, _ in batches])
    return NETWORK.learn_views(start, x, torch.Generator(), moments, Given(), training)[0]  # type: ignore[arg-type]


def by_clusters(
    start: Tensor, batches: Sequence[Batch], moments: AdamMoments, training: ContrastiveTraining, clusters: Tensor
) -> Tensor:
    """A client's model after a round by clusters, in the order of the batches."""
    x, rows = (torch.cat(parts) for parts in zip(*batches, strict=True))
    anchors = NETWORK.anchors(start, x, training)[1]
    with patch("torch.randperm", lambda n, **_: torch.arange(n)):
        return NETWORK.learn_clusters(start, x, clusters[rows], anchors, torch.Generator(), moments, training)[0]


def gradient(seen: Seen, phase: str) -> Tensor:
    """Of fedkin for the first client's first batch: a tenth of it is the mean that Adam begins with."""
    first = seen.batches[0][0][:1]
    moments = AdamMoments.new(NETWORK.parameters)
    training = ContrastiveTraining(batch_size=len(first[0][1]), model_weight=0.0, form="code")
    if phase == "views":
        by_views(seen.start[0], first, moments, training)
    else:
        by_clusters(seen.start[0], first, moments, training, seen.found[0].clusters)
    return 10 * moments.mean


def their_gradient(seen: Seen, phase: str, precision: torch.dtype) -> Tensor:
    """That of their module and their losses, in order of fedkin's parameters."""
    module, code = copy.deepcopy(seen.module).to(precision).train(), seen.code
    images, rows = seen.batches[0][0][0]
    if phase == "views":
        (z1, p1), (z2, p2) = (module(view.to(precision)) for view in images)
        loss = 0.5 * code.asymmetric_loss(p1, z2) + 0.5 * code.asymmetric_loss(p2, z1)
    else:
        z, p = module(images.to(precision))
        own = seen.found[0].clusters[rows]
        groups = [own == cluster for cluster in own.unique() if int((own == cluster).sum()) > 1]
        loss = torch.stack([code.symmetric_loss(p[group], z[group]) for group in groups]).mean()
    loss.backward()
    return torch.cat([part.grad.double().flatten() for part in module.parameters() if part.grad is not None])


def compared(seen: Seen, at: int, own: Models, other: Models, x: Tensor) -> list[str]:
    """One row of the table."""
    found = seen.found[-len(seen.batches) :]
    starts = seen.start if at == 0 else [found[at - 1].model] * SITES
    begun, theirs = torch.stack(starts).mean(0), Models(seen.clients[at], found[at].model)
    pairs = []
    for one, two in ((own, theirs), (own, other)):
        trios = list(zip(one.clients, two.clients, starts, strict=True))
        clients, kept = (max(distance(*map(of, trio)) for trio in trios) for of in (weights, variances))
        pairs.append((clients, distance(*map(weights, (one.mean, two.mean, begun))), kept))
    cells = [f"{value:.1e} ({own_value:.1e})" for value, own_value in zip(*pairs, strict=True)]
    same = [(NETWORK.latents(m.mean, x) @ found[at].centroids.T).argmax(1) == found[at].clusters for m in (own, other)]
    steps = sum(len(parts[0]) for parts in seen.batches[: at + 1])
    percent = [f"{100 * float(equal.float().mean()):.1f}" for equal in same]
    return [str(steps), *cells, f"{percent[0]} % ({percent[1]} %)"]


def distance(one: Tensor, other: Tensor, start: Tensor) -> float:
    """From one model to another, relative to how far the other has moved."""
    return float((one - other).norm() / (other - start).norm())


def weights(model: Tensor) -> Tensor:
    """Matrices and kernels: biases before a batch norm change nothing, and Adam makes full steps of their rounding."""
    return torch.cat([part.detach().flatten() for part in NETWORK.module(model).parameters() if part.dim() > 1])


def variances(model: Tensor) -> Tensor:
    """What batch norms remember."""
    kept = dict(NETWORK.module(model).named_buffers())
    return torch.cat([value for name, value in kept.items() if name.endswith("running_var")])


if __name__ == "__main__":
    main()
