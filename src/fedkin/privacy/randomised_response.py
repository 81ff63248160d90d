"""Randomised response: quantises codes to bits, and flips the bits at random (Warner 1965).

Tensors of bits are uint8 and hold zeros and ones, and the `probability` of a flip is in [0, 0.5]; at 0.5 nothing of the
bits is left. A message of n bits has n times the epsilon of one. That speaks of one message: an encoder that was
trained on the same clients' data, the training that follows, and further messages that are not `memorised` cost extra.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from fedkin.core.errors import FedkinError
from fedkin.core.seeds import Noise, uniform

MEANINGFUL_EPSILON = 10.0  # the largest that is called a guarantee: a message may be e^10 = 22,000 times likelier


def bit_epsilon(probability: float) -> float:
    """Return the pure epsilon of one bit that is flipped with `probability` P: ln((1 - P) / P)."""
    return math.inf if probability == 0.0 else math.log1p(-probability) - math.log(probability)


def flip_probability(epsilon: float, bits: int) -> float:
    """Return the smallest probability of flips that keeps a message of `bits` bits, 1 or more, within pure epsilon."""
    return float(expit(-epsilon / bits))


def binary(segments: Tensor) -> Tensor:
    """Quantise numbers ``(segments, width)`` to bits: 1 where nearer to the row's maximum than to its minimum.

    Where both are the same, and halfway between them, bits are 0 (Prigent et al., IV-B). Raises FedkinError if a number
    is not finite.
    """
    exact = segments.double()
    if not bool(exact.isfinite().all()):
        raise FedkinError(
            "Codes hold numbers that are not finite, which have no bits; the encoder must give finite ones."
        )
    low, high = exact.aminmax(dim=1, keepdim=True)
    span = high - low
    return ((exact - low) / torch.where(span > 0, span, 1.0)).round().to(torch.uint8)


def flipped(bits: Tensor, probability: float, noise: Noise) -> Tensor:
    """Flip each bit of `bits`, uint8 of any shape, independently with `probability`."""
    # Double precision, because single would round probabilities below 2**-24.
    return bits ^ (uniform(bits.shape, noise) < probability).to(torch.uint8)


def memorised(bits: Tensor, probability: float, memory: Tensor | None, noise: Noise) -> tuple[Tensor, Tensor]:
    """Flip bits once and remember the answers: permanent randomised response (Erlingsson et al. 2014).

    For each position, and each value the true bit may take, the answer is drawn once and kept, so that it is the same
    whenever the true bits are. Whoever collects the answers of many rounds cannot average the noise away.

    What that bounds, with e = `bit_epsilon(probability)`: a true bit that never changes loses e in total,
    however often it is asked for, because one answer is all there is to see. Of a bit that does change, both answers
    can be seen, so its values lose at most 2e: the likelihood of two given answers differs at most by ((1 - P) / P)**2
    between a history of values and its opposite. It does *not* bound what shows *when* a bit changed: where the two
    answers differ, which happens with probability P**2 + (1 - P)**2, a change is seen for certain, since unchanged data
    never give another answer.

    `bits` are uint8 ``(n,)``. `memory`, uint8 ``(2, n)``, is from an earlier call, kept in the client's state; row v
    holds the answers for true bits of v. `probability` is used only without it; the same memory means the same
    probability. Return the answer and the memory. Raises FedkinError if `memory` is of a message of another length.
    """
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
