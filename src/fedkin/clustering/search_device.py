"""Where dense searches compute: on the processor, or on the thread's device if there are enough distances to pay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from fedkin.core.device import ONE_AT_A_TIME, device, placed, stack_memory

WORTH_A_DEVICE = 1 << 24
"""Distances, rows times candidates, from which a search goes to an accelerator.

A core computes so many in some ten milliseconds, on 20 columns. For fewer, to send the rows and to wait for the answer
may take longer; from which number on a GPU is faster was not measured.
"""
_PROCESSOR = torch.device("cpu")
_AT_ONCE = 1 << 28
"""Maximum number of distances in an accelerator's memory: enough to keep it busy."""
_COPIES = 4
"""Numbers that a search holds for each distance of a block, at most."""


@contextmanager
def place_of_search(rows: int, candidates: int, held: int = 0) -> Iterator[torch.device]:
    """Choose where distances of `rows` to `candidates` are computed, as a context manager that gives the device.

    It is the processor if that is the thread's device, the distances are fewer than `WORTH_A_DEVICE`, or the search
    must hold so many bytes in `held` that an accelerator lacks the room. On an accelerator one thread searches at a
    time, and factors of products are not rounded, whatever ``device.tf32`` says.
    """
    where = device()
    if where.type == "cpu" or rows * candidates < WORTH_A_DEVICE or held > stack_memory() // 2:
        yield _PROCESSOR
        return
    with ONE_AT_A_TIME:
        precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            yield where
        finally:
            torch.set_float32_matmul_precision(precision)


def rows_at_once(candidates: int, like: Tensor) -> int:
    """Return how many rows an accelerator compares with all candidates at once; numbers are as large as in `like`."""
    distances = min(_AT_ONCE, stack_memory() // (_COPIES * like.element_size()))
    return max(1, distances // candidates)


def sent(points: Tensor, rows: int) -> Iterator[Tensor]:
    """Yield blocks of so many rows of `points` on the thread's device: sent once, or in blocks if they are many."""
    if points.nbytes <= stack_memory() // 2:
        yield from placed(points).split(rows)
    else:
        yield from (part.to(device()) for part in points.split(rows))
