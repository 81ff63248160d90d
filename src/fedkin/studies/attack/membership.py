"""Membership inference: does a message reveal whether a given sample is among a client's data?

The attacker is the server: it has the encoder, the sample, the segment of bits that the sample would be in, and the
segments of other clients. It scores how well the sample's own code agrees with the bits, and infers "member" above a
threshold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor

from fedkin.core.errors import FedkinError
from fedkin.privacy.randomised_response import binary, flipped, normalised
from fedkin.studies.attack.reconstruction import KnownEncoder

Numbers = NDArray[np.floating]
_SURE = 0.02
"""No bit is taken for more certain than this, however seldom it was seen."""


class Cases(NamedTuple):
    """Test cases of membership inference: pairs of a segment and a sample that may or may not be a member.

    Segments are bits, uint8 ``(n, width)``, not flipped, and `codes` those of the samples, float64 ``(n, width)`` in
    [0, 1]. `members`, bool ``(n,)``, says whether the sample is a member. `kinds`, int64 ``(n,)``, are equal for
    segments and samples from the same distribution. Cases of one of the `blocks`, int64 ``(n,)``, such as one client,
    are never split between fitting and testing.
    """

    segments: Tensor
    codes: Tensor
    members: Tensor
    kinds: Tensor
    blocks: Tensor


@dataclass(frozen=True)
class Membership:
    """Success of membership inference.

    `advantage` is the true positive rate less the false positive rate, in [-1, 1]; 0 by chance. Score and threshold are
    chosen on one half of the cases and tested on the other, and vice versa (two-fold cross-validation). `margin` is two
    standard errors of it, as if cases were independent. `area` is that under the ROC curve; 0.5 by chance.
    """

    advantage: float
    margin: float
    area: float
    cases: int


@dataclass(frozen=True)
class Sent:
    """Message of a client, with member and non-member samples to test on it.

    `bits` are uint8 ``(segments, width)``, before any flip. `members` and `fresh` are the client's samples, and others
    of the same distribution; `places` are the segments of both, or ``None`` if unknown: the attacker then takes the
    likeliest. `kind` is equal for clients with data of the same distribution.
    """

    bits: Tensor
    members: Tensor
    fresh: Tensor
    places: tuple[Tensor, Tensor] | None
    kind: int


def planned(known: KnownEncoder, pools: Sequence[Tensor], size: int, trials: int, rng: torch.Generator) -> Cases:
    """Make test cases from simulated clients with exactly `size` samples of a class: a member and a non-member each.

    Each of the `pools` has more than `size` samples ``(n, *shape)``; a client draws from one. `size` and `trials` are
    at least 1.
    """
    single = size == 1
    codes = [known.codes_one_by_one(x) if single else known.codes(x) for x in pools]
    unit = [normalised(each) for each in codes]
    means, samples, kinds = [], [], torch.randint(len(pools), (trials,), generator=rng)
    for pool in kinds.tolist():
        rows = torch.randperm(len(pools[pool]), generator=rng)[: size + 1]
        own = codes[pool][rows[:size]]
        if known.batch_statistics and not single:  # every set of samples gives codes of its own
            own = known.codes(pools[pool][rows[:size]])
        means.append(own.mean(0))
        samples.append(unit[pool][rows[[0, size]]])
    return Cases(
        binary(torch.stack(means)).repeat_interleave(2, 0),
        torch.cat(samples),
        torch.tensor([True, False]).repeat(trials),
        kinds.repeat_interleave(2),
        torch.arange(trials).repeat_interleave(2),
    )


def as_sent(known: KnownEncoder, messages: Sequence[Sent], per_segment: int, rng: torch.Generator) -> Cases:
    """Make test cases from the messages of the run's clients.

    At most `per_segment` members are tried with each segment, and as many others. Raises FedkinError if no client has
    both members and fresh samples for a segment.
    """
    made: list[Cases] = []
    for block, sent in enumerate(messages):
        segments = len(sent.bits)
        for place in range(segments) if sent.places else (None,):
            sides = (sent.members, sent.fresh)
            if place is not None and sent.places:
                sides = (sides[0][sent.places[0] == place], sides[1][sent.places[1] == place])
            maximum = min(map(len, sides))
            count = min(per_segment * (segments if place is None else 1), maximum)
            if not count:
                continue
            taken = maximum if known.batch_statistics else count
            drawn = [x[torch.randperm(len(x), generator=rng)[:taken]] for x in sides]
            # Both sides in one batch: statistics of batches of different sizes would give the side away.
            codes = normalised(known.codes(torch.cat(drawn)))
            codes = torch.cat([codes[:count], codes[len(drawn[0]) :][:count]])
            at = torch.full((2 * count,), place) if place is not None else likeliest(sent.bits, codes)
            made.append(
                Cases(
                    sent.bits[at],
                    codes,
                    torch.tensor([True, False]).repeat_interleave(count),
                    sent.kind * segments + at,
                    torch.full((2 * count,), block),
                )
            )
    if not made:
        raise FedkinError("No client has samples of a segment both in its data and held out, so nothing can be tried.")
    return Cases(*(torch.cat(parts) for parts in zip(*made, strict=True)))


def likeliest(bits: Tensor, codes: Tensor) -> Tensor:
    """Return the segment ``(n,)`` of `bits` ``(segments, width)`` that is nearest to each code ``(n, width)``."""
    return torch.cdist(codes.round(), bits.double(), p=1).argmin(1)


def measured(cases: Cases, probability: float, rng: torch.Generator) -> Membership:
    """Measure the success of membership inference if every bit is flipped with `probability`."""
    bits = flipped(cases.segments, probability, rng).double()
    # How often a bit is 1 in segments of this kind; flips pull it towards one half.
    usual = _by_kind(cases.segments.double(), cases.kinds)
    usual = usual * (1 - probability) + (1 - usual) * probability
    scores = [_surprise(bits, usual, cases.codes, probability), _likeness(bits, usual, cases)]
    truth, first = cases.members.numpy(), (cases.blocks % 2 == 0).numpy()
    predicted = np.zeros(len(truth), dtype=bool)
    areas = []
    for fit in (first, ~first):
        fits = [_threshold(score[fit], truth[fit]) for score in scores]
        best = int(np.argmax([advantage for _, advantage in fits]))
        predicted[~fit] = scores[best][~fit] >= fits[best][0]
        areas.append(_area(scores[best][~fit], truth[~fit]))
    rates = float(predicted[truth].mean()), float(predicted[~truth].mean())
    error = math.sqrt(sum(rate * (1 - rate) / side.sum() for rate, side in zip(rates, (truth, ~truth), strict=True)))
    return Membership(rates[0] - rates[1], 2 * error, float(np.mean(areas)), len(truth))


def _surprise(bits: Tensor, usual: Tensor, codes: Tensor, probability: float) -> Numbers:
    """Return the log-likelihood ratio of the bits: made of this sample alone, against segments of this kind."""
    wrong = max(probability, _SURE)
    own = torch.where(bits == codes.round(), math.log(1 - wrong), math.log(wrong))
    usual = usual.clamp(_SURE, 1 - _SURE)
    return np.asarray((own - torch.where(bits == 1, usual, 1 - usual).log()).mean(1))


def _likeness(bits: Tensor, usual: Tensor, cases: Cases) -> Numbers:
    """Return the covariance of bits and sample codes, each centred on the mean of their kind.

    Members and non-members together define the mean code, which favours neither.
    """
    return np.asarray(((bits - usual) * (cases.codes - _by_kind(cases.codes, cases.kinds))).mean(1))


def _by_kind(values: Tensor, kinds: Tensor) -> Tensor:
    """Return for every row of `values` the mean over the rows of its kind."""
    _, places, counts = kinds.unique(return_inverse=True, return_counts=True)
    sums = torch.zeros(len(counts), values.shape[1], dtype=values.dtype).index_add_(0, places, values)
    means: Tensor = (sums / counts[:, None])[places]
    return means


def _threshold(scores: Numbers, truth: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the threshold of greatest advantage, half way to the next lower score, and the advantage."""
    values = np.unique(scores)
    sides = [np.sort(scores[truth]), np.sort(scores[~truth])]
    above = [1.0 - np.searchsorted(each, values) / len(each) for each in sides]
    best = int(np.argmax(above[0] - above[1]))
    return float(values[max(0, best - 1) : best + 1].mean()), float(above[0][best] - above[1][best])


def _area(scores: Numbers, truth: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve: the chance that a member scores above a non-member, ties counting half."""
    members, others = int(truth.sum()), int((~truth).sum())
    return float((rankdata(scores)[truth].mean() - (members + 1) / 2) / others)
