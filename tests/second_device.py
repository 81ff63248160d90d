"""The device that tests compare with the processor: a real one that `$FEDKIN_DEVICE` names, or else a stand-in."""

import os
from typing import Any

import torch
from torch import Tensor

NAME = os.environ.get("FEDKIN_DEVICE", "")
REAL = bool(NAME)
"""Whether it is an accelerator, whose sums are rounded in another order than the processor's."""

if not REAL:
    import elsewhere

    NAME = elsewhere.NAME

DEVICE = torch.device(NAME) if REAL else torch.device(NAME, 0)
TOLERANCE = 2e-3 if REAL else 1e-6
"""Largest difference between a number computed there and on the processor, after a few steps of training."""
ALIKE = 0.9 if REAL else 1.0
"""Least fraction of labels that are the same."""


def drawn(shape: tuple[int, ...], count: int) -> tuple[torch.Generator, Tensor]:
    """Random samples, the same each time, and the generator that has drawn them."""
    rng = torch.Generator().manual_seed(0)
    return rng, torch.rand(count, *shape, generator=rng)


def some(cases: list[Any], every: int = 3) -> list[Any]:
    """All cases on a real device; every third for a stand-in, which shows forgotten tensors and computes slowly."""
    return cases if REAL else cases[::every]
