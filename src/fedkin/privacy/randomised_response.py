"""Randomised response: quantises codes to bits, and flips the bits at random.

Tensors of bits are uint8 and hold zeros and ones.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedkin.core.errors import FedkinError
from fedkin.core.seeds import Noise, uniform

Normalise = Literal["segment", "vector"]


def normalised(segments: Tensor, normalise: Normalise = "segment") -> Tensor:
    """Scale numbers ``(segments, width)`` to [0, 1] by their minimum and maximum, in float64.

    Minimum and maximum are those of each row ("segment"), or of all rows together ("vector"); where both are the same,
    numbers become 0. Raises FedkinError if a number is not finite.
    """
    exact = segments.double()
    if not bool(exact.isfinite().all()):
        raise FedkinError(
            "Codes hold numbers that are not finite, which have no bits; the encoder must give finite ones."
        )
    low, high = exact.aminmax(dim=1, keepdim=True) if normalise == "segment" else exact.aminmax()
    span = high - low
    return (exact - low) / torch.where(span > 0, span, 1.0)


def binary(segments: Tensor, normalise: Normalise = "segment") -> Tensor:
    """Quantise numbers to bits: 1 where a number is nearer to the maximum than to the minimum (Prigent et al., IV-B).

    What `normalised` gives is rounded, one half to 0 (half to even): uint8 ``(segments, width)``. Parameters and errors
    are those of `normalised`.
    """
    return normalised(segments, normalise).round().to(torch.uint8)


def flipped(bits: Tensor, probability: float, noise: Noise) -> Tensor:
    """Flip each bit of `bits`, uint8 of any shape, independently with `probability` in [0, 0.5].

    At 0.5 nothing of the bits is left. Raises FedkinError if `probability` is outside [0, 0.5].
    """
    check_probability(probability)
    # Double precision, because single would round probabilities below 2**-24.
    return bits ^ (uniform(bits.shape, noise) < probability).to(torch.uint8)


def memorised(bits: Tensor, probability: float, memory: Tensor | None, noise: Noise) -> tuple[Tensor, Tensor]:
    """Flip bits once and remember the answers: permanent randomised response (Erlingsson et al. 2014).

    For each position, and each value the true bit may take, the answer is drawn once and kept, so that it is the same
    whenever the true bits are. Whoever collects the answers of many rounds cannot average the noise away.

    What that bounds, with e = `accounting.bit_epsilon(probability)`: a true bit that never changes loses e in total,
    however often it is asked for, because one answer is all there is to see. Of a bit that does change, both answers
    can be seen, so its values lose at most 2e: the likelihood of two given answers differs at most by ((1 - P) / P)**2
    between a history of values and its opposite. It does *not* bound what shows *when* a bit changed: where the two
    answers differ, which happens with probability P**2 + (1 - P)**2, a change is seen for certain, since unchanged data
    never give another answer.

    `bits` are uint8 ``(n,)``. `memory`, uint8 ``(2, n)``, is from an earlier call, kept in the client's state; row v
    holds the answers for true bits of v. `probability`, in [0, 0.5], is used only without it; the same memory means the
    same probability. Return the answer and the memory. Raises FedkinError if `probability` is outside [0, 0.5], or
    `memory` is of a message of another length.
    """
    check_probability(probability)
    if memory is None:
        memory = flipped(torch.tensor([[0], [1]], dtype=torch.uint8).expand(2, len(bits)), probability, noise)
    elif memory.shape != (2, len(bits)):
        raise FedkinError(
            f"Memorised answers have shape {tuple(memory.shape)} where a message of {len(bits)} bits needs "
            f"(2, {len(bits)}); a client's messages must keep their length."
        )
    return torch.where(bits.bool(), memory[1], memory[0]), memory


def packed(bits: Tensor) -> Tensor:
    """Pack bits into bytes, the first bit the highest: uint8 ``(n,)`` to uint8 ``(ceil(n / 8),)``, zero-padded."""
    return torch.from_numpy(np.packbits(bits.numpy()))


def unpacked(packed: Tensor, n: int) -> Tensor:
    """Unpack the first `n` bits, uint8 ``(n,)``, of bytes from `packed`.

    Raises FedkinError if there are not as many bytes as `n` bits take.
    """
    if len(packed) != -(-n // 8):
        raise FedkinError(f"A message of {len(packed)} bytes cannot hold {n} bits, which take {-(-n // 8)}.")
    return torch.from_numpy(np.unpackbits(packed.numpy(), count=n))


def check_probability(probability: float) -> None:
    """Check that `probability` is one that a bit may be flipped with, in [0, 0.5]."""
    if not 0.0 <= probability <= 0.5:
        raise FedkinError(f"Flip probability {probability} is outside [0, 0.5]; at 0.5 a bit carries no information.")
