"""Reconstruction of samples from bits by the decoder, as in Prigent et al. 2024, section VI-B.

The attacker is the strongest possible: it has the decoder, and knows the minimum and maximum of the code that was
binarised, so a 1 becomes the maximum and a 0 the minimum. The worst case for a client is a segment made of a single
sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkin.nn.encoder import Encoder
from fedkin.privacy.randomised_response import binary, flipped

LEVELS: tuple[float | None, ...] = (None, 0.0, 0.05, 0.1, 0.15, 0.2)
"""Flip probabilities of the paper's table II and figure 3; None leaves the code as it is, without quantisation."""


@dataclass(frozen=True)
class Reconstruction:
    """Result of reconstructing segments of one sample each: pictures ``(n, *shape)``, and mean squared errors ``(n,)``.

    `recognised` is the share of the reconstructions that are nearer to their own sample than to any other of the n; 1 /
    n by chance.
    """

    pictures: Tensor
    errors: Tensor
    recognised: float


@dataclass(frozen=True)
class KnownEncoder:
    """Encoder of a run as the attacker has it, and how the clients' codes are made, see `Encoder.codes`."""

    encoder: Encoder
    vector: Tensor
    batch_statistics: bool = False

    def codes(self, x: Tensor) -> Tensor:
        """Encode samples ``(n, *shape)`` as those of one client to codes ``(n, width)``."""
        return self.encoder.codes(self.vector, x, self.batch_statistics)

    def codes_one_by_one(self, x: Tensor) -> Tensor:
        """Encode samples ``(n, *shape)``, each as the only one of its class, to codes ``(n, width)``."""
        if not self.batch_statistics:
            return self.codes(x)
        return torch.cat([self.codes(one) for one in x.split(1)])

    def decoded(self, codes: Tensor, probability: float | None, rng: torch.Generator) -> Tensor:
        """Decode codes, or bits made of them that are flipped with a `probability`, to samples ``(n, *shape)``."""
        if probability is None:
            return self.encoder.decoded(self.vector, codes)
        return self.decoded_bits(flipped(binary(codes), probability, rng), codes)

    def decoded_bits(self, bits: Tensor, codes: Tensor) -> Tensor:
        """Decode bits ``(n, width)`` to samples, given the minimum and maximum of the true codes ``(n, width)``."""
        lowest, highest = codes.aminmax(dim=1, keepdim=True)
        return self.encoder.decoded(self.vector, torch.where(bits.bool(), highest, lowest))


def reconstructed(known: KnownEncoder, x: Tensor, probability: float | None, rng: torch.Generator) -> Reconstruction:
    """Attack segments of one sample each, of `x` ``(n, *shape)``, by reconstruction.

    `probability` is that of a flip; ``None`` for codes that are sent without binarisation.
    """
    pictures = known.decoded(known.codes_one_by_one(x), probability, rng)
    distances = torch.cdist(pictures.flatten(1).double(), x.flatten(1).double())
    right = distances.argmin(1) == torch.arange(len(x))
    return Reconstruction(pictures, (pictures - x).square().flatten(1).mean(1), float(right.double().mean()))


def reconstructed_messages(
    known: KnownEncoder, parts: Sequence[Tensor], probability: float | None, rng: torch.Generator
) -> tuple[float, float, float]:
    """Attack segments as clients send them by reconstruction; each is the mean code of samples.

    `parts` are these samples ``(n, *shape)`` by segment; the rest is as for `reconstructed`. Return mean squared
    errors: to the samples behind a segment, to the mean of these, and of that mean to the samples, the spread: no
    single picture comes closer to them.
    """
    pictures = known.decoded(torch.stack([known.codes(part).mean(0) for part in parts]), probability, rng)
    means = torch.stack([part.mean(0) for part in parts])
    to_mean = (pictures - means).square().flatten(1).mean(1)
    spread = torch.stack([(part - mean).square().mean() for part, mean in zip(parts, means, strict=True)])
    # The mean squared distance of samples from any point is that from their mean, plus the mean's from the point.
    return float((to_mean + spread).mean()), float(to_mean.mean()), float(spread.mean())
