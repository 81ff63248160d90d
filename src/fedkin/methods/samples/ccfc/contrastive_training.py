"""Training of one client's contrastive network, by pairs of views or by clusters (CCFC, sections 3.1 and 3.2).

Equations are those of the paper: (1) and (2) pull samples of one cluster together, (4) to (7) keep a client's network
near the global one. Both are computed within a batch; clusters with a single sample in it are left out of the first.
CCFC++ adds a term that keeps the dimensions of representations uncorrelated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, one_hot

from fedkin.core.device import device, execution
from fedkin.methods.samples.ccfc.augmentation import Augmentation, Views
from fedkin.methods.samples.ccfc.contrastive import (
    ContrastiveNetwork,
    Design,
    Form,
    cluster_contrast,
    mean_correlation,
    model_contrast,
    negative_cosine,
)
from fedkin.methods.samples.ccfc.pillow_augmentation import Draws, PillowAugmentation
from fedkin.nn.architecture import Architecture
from fedkin.nn.optimisers import AdamMoments
from fedkin.nn.recording import Recorded
from fedkin.nn.resident import Resident

Precision = Literal["float32", "bfloat16"]

_BATCH = 500
_VIEWED = 4096
"""Images whose views are made together on a GPU."""


@dataclass(frozen=True)
class ContrastiveTraining:
    """Settings of a client's contrastive training, see `fedkin.methods.samples.ccfc.ccfc.CCFCMethod`.

    A last batch of a single sample is left out, for a batch norm cannot learn from it. With a `model_weight` of 0 the
    common network is not computed in rounds by views. Whatever the `precision` of products, parameters, statistics,
    losses and Adam's moments are float32; "bfloat16" is much slower where a processor has no instructions for it.
    """

    local_epochs: int = 1
    batch_size: int = 128
    learning_rate: float = 1e-3
    model_weight: float = 0.001
    decorrelation: float = 0.0
    form: Form = "paper"
    precision: Precision = "float32"
    views: Views = "affine"

    def products(self) -> AbstractContextManager[Any]:
        """Return a context in which matrix products and convolutions have the chosen precision."""
        return nullcontext() if self.precision == "float32" else torch.autocast(device().type, dtype=torch.bfloat16)


class Contrastive(Architecture):
    """An `Architecture` of a `ContrastiveNetwork`, from the fields of a `Design` with a backbone that is named."""

    criterion = staticmethod(negative_cosine)

    def __init__(self, **design: Any) -> None:
        self.design = Design(**design)
        super().__init__(self.design.backbone, self.design.shape)

    def spec(self) -> dict[str, Any]:
        """Return the design's plain values."""
        return self.design.spec()

    def build(self) -> nn.Module:
        return ContrastiveNetwork(self.design)

    def _takes_channels_last(self) -> bool:
        """Whether the module accepts the channels-last memory format; not used with batch normalisation.

        On a CPU torch adds up batch statistics one value after another where channels are last: on digits, mostly
        black, activations were 4e-5 off and gradients up to 7e-3, for steps that are 6 % faster.
        """
        return self.design.normalization != "batch" and super()._takes_channels_last()

    def targets(self, x: Tensor) -> Tensor:
        """Return ones as placeholder targets, which the loss ignores."""
        return torch.ones(len(x), self.design.latent)

    def latents(self, vector: Tensor, x: Tensor) -> Tensor:
        """Return representations ``(n, latent)`` of samples ``(n, *shape)``, each scaled to length 1.

        Batch norms use the statistics that they remember.
        """
        return normalize(self._both(vector, x, with_predictions=False)[0], dim=1)

    def anchors(self, vector: Tensor, x: Tensor, training: ContrastiveTraining) -> tuple[Tensor, Tensor]:
        """Return representations scaled to length 1, and predictions (eq. 7), of samples: ``(n, latent)`` each."""
        with training.products():
            latents, predictions = self._both(vector, x, with_predictions=True)
        return normalize(latents, dim=1), predictions

    def learn_views(
        self,
        start: Tensor,
        x: Tensor,
        rng: torch.Generator,
        moments: AdamMoments,
        how: Augmentation | PillowAugmentation,
        training: ContrastiveTraining,
    ) -> tuple[Tensor, float | None]:
        """Learn to predict one view of a sample from another (SimSiam; Chen and He 2021, algorithm 1).

        `start` ``(size,)`` is not modified; it is also the common network of the model-contrastive term, which is the
        mean over both views. `rng` shuffles, and draws views; Adam's `moments` are modified. Return the model and the
        mean loss over the samples of all batches; None if there was no batch of two samples or more.
        """
        with self.loaded(start) as common:
            samples = common.placed(x)

            def views(batches: Sequence[Tensor], resident: Resident) -> Iterator[tuple[Tensor, ...]]:
                for some in _at_once(batches, x):
                    pairs = [[how.draw((len(rows), *x.shape[1:]), rng) for _ in range(2)] for rows in some]
                    chosen, lengths = samples[torch.cat(list(some))], list(map(len, some))
                    made = [how.apply(chosen, _joined(view)).split(lengths) for view in zip(*pairs, strict=True)]
                    for first, second in zip(*made, strict=True):
                        yield resident.laid(first), resident.laid(second)

            def loss(student: ContrastiveNetwork, first: Tensor, second: Tensor) -> Tensor:
                z1, z2 = student.encoder(first), student.encoder(second)
                p1, p2 = student.predictor(z1).float(), student.predictor(z2).float()
                loss = (negative_cosine(p1, z2.float()) + negative_cosine(p2, z1.float())) / 2
                if training.decorrelation:
                    loss = loss + training.decorrelation * (mean_correlation(z1) + mean_correlation(z2)) / 2
                if not training.model_weight:
                    return loss
                with torch.no_grad():
                    anchors = common.module(torch.cat([first, second])).float()
                return loss + training.model_weight * negative_cosine(torch.cat([p1, p2]), anchors)

            return self._descended(start, len(x), rng, moments, training, _Objective(views, loss, ("views", common)))

    def learn_clusters(
        self, start: Tensor, x: Tensor, clusters: Tensor, anchors: Tensor, rng: torch.Generator, moments: AdamMoments,
        training: ContrastiveTraining,
    ) -> tuple[Tensor, float | None]:  # fmt: skip
        """Learn to predict samples of a cluster from each other (eq. 4), without augmentation.

        `clusters`, int64 ``(n,)``, are those of the samples, and `anchors` ``(n, latent)`` the common network's
        predictions. The rest, and what is returned, is as for `learn_views`.
        """
        count = int(clusters.max()) + 1
        samples, own, goals = (part.to(device()) for part in (x, clusters, anchors))

        def chosen(batches: Sequence[Tensor], resident: Resident) -> Iterator[tuple[Tensor, ...]]:
            return ((resident.laid(samples[rows]), own[rows], goals[rows]) for rows in batches)

        def loss(student: ContrastiveNetwork, x: Tensor, own: Tensor, goals: Tensor) -> Tensor:
            z = student.encoder(x)
            p, z = student.predictor(z).float(), z.float()
            members = one_hot(own, count).float()
            loss = cluster_contrast(p, z, members, training.form)
            if training.model_weight:
                loss = loss + training.model_weight * model_contrast(p, goals, members, training.form)
            if training.decorrelation:
                loss = loss + training.decorrelation * mean_correlation(z)
            return loss

        return self._descended(start, len(x), rng, moments, training, _Objective(chosen, loss, ("clusters", count)))

    def _descended(
        self, start: Tensor, n: int, rng: torch.Generator, moments: AdamMoments, training: ContrastiveTraining,
        objective: _Objective,
    ) -> tuple[Tensor, float | None]:  # fmt: skip
        losses: list[Tensor] = []
        counts: list[int] = []
        with self.loaded(start, rng, training=True) as resident:
            step = _step_of(resident, training, objective)
            step.moments.take(moments, resident.laid_out)
            for _ in range(training.local_epochs):
                order = resident.placed(torch.randperm(n, generator=rng))
                batches = [rows for rows in order.split(training.batch_size) if len(rows) > 1]
                losses += [step.take(*inputs) for inputs in objective.inputs(batches, resident)]
                counts += map(len, batches)
            model = resident.vector()
            moments.take(step.moments, resident.collected)
        if not losses:
            return model, None
        weights = torch.tensor(counts, dtype=torch.float32)
        return model, float(torch.stack(losses).cpu() @ weights / weights.sum())

    @torch.no_grad()
    def _both(self, vector: Tensor, x: Tensor, with_predictions: bool) -> tuple[Tensor, Tensor]:
        latents, predictions = [torch.zeros(0, self.design.latent)], [torch.zeros(0, self.design.latent)]
        with self.loaded(vector) as resident:
            network = _network(resident)
            for part in x.split(_BATCH) if len(x) else ():
                z = network.encoder(resident.laid(part))
                latents.append(z.float().cpu())
                if with_predictions:
                    predictions.append(network.predictor(z).float().cpu())
        return torch.cat(latents), torch.cat(predictions)


class _Objective(NamedTuple):
    """What a step minimises, and how its inputs are made of the rows of every batch.

    `kind` tells objectives of different steps apart.
    """

    inputs: Callable[[Sequence[Tensor], Resident], Iterator[tuple[Tensor, ...]]]
    loss: Callable[..., Tensor]
    kind: tuple[Any, ...]


class _Step:
    """A step of Adam on a resident's model, with moments that stay in its place in memory."""

    def __init__(self, resident: Resident, training: ContrastiveTraining, loss: Callable[..., Tensor]) -> None:
        self.moments = AdamMoments.like(resident.params)
        self._resident, self._training, self._loss = resident, training, loss
        self._compiled = torch.compile(loss, dynamic=False) if execution().compile else loss
        self.take = Recorded(self._taken)

    def _taken(self, *inputs: Tensor) -> Tensor:
        """Take a step on a batch; return its loss."""
        self._resident.grad.zero_()
        usual = len(inputs[0]) == self._training.batch_size  # each other length would be compiled anew
        with self._training.products():
            loss = (self._compiled if usual else self._loss)(_network(self._resident), *inputs)
        loss.backward()
        self.moments.step(self._resident.params, self._resident.grad, self._training.learning_rate)
        return loss.detach()


def _at_once(batches: Sequence[Tensor], x: Tensor) -> list[Sequence[Tensor]]:
    """Return the batches in groups whose views are made together: on a GPU many, unless samples of a batch mix."""
    together = 1 if device().type == "cpu" or x.dim() != 4 else max(1, _VIEWED // max(map(len, batches), default=1))
    return [batches[at : at + together] for at in range(0, len(batches), together)]


def _joined(draws: Sequence[Draws]) -> Draws:
    return tuple(torch.cat(parts) for parts in zip(*draws, strict=True))


def _step_of(resident: Resident, training: ContrastiveTraining, objective: _Objective) -> _Step:
    """Return the resident's step for this training and objective, the one of before if there was one."""
    kind = (training, objective.kind, execution())
    if kind not in resident.steps:
        resident.steps.clear()  # a GPU keeps the memory of recorded steps
        resident.steps[kind] = _Step(resident, training, objective.loss)
    step: _Step = resident.steps[kind]
    return step


def _network(resident: Resident) -> ContrastiveNetwork:
    return cast(ContrastiveNetwork, resident.module)
