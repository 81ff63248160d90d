"""Storage of samples that are too many for memory, in a memory-mapped temporary file."""

from __future__ import annotations

import math
import os
import tempfile

import torch
from torch import Tensor

from fedkin.core.errors import FedkinError

LARGE = 2**30
"""Bytes from which on the samples of a data set lie on disk."""


def new_store(count: int, shape: tuple[int, ...], dtype: torch.dtype, where: str) -> Tensor:
    """Allocate a tensor ``(count, *shape)``: in memory, or if it is large in a memory-mapped temporary file.

    The file is in the folder for temporary files, which ``TMPDIR`` names. It has no name there, so that nothing of it
    remains. Raises FedkinError if there is not enough room on disk.
    """
    numbers = count * math.prod(shape)
    size = numbers * dtype.itemsize
    if size < LARGE:
        return torch.empty((count, *shape), dtype=dtype)
    handle, path = tempfile.mkstemp(prefix="fedkin-")
    try:
        os.posix_fallocate(handle, 0, size)  # a sparse file would end the program when the disk is full
        return torch.from_file(path, shared=True, size=numbers, dtype=dtype).view(count, *shape)
    except OSError as error:
        raise FedkinError(
            f"{where} holds {size / 2**30:.1f} GiB, for which there is no room in {tempfile.gettempdir()} "
            f"({error.strerror}); name a larger folder by TMPDIR."
        ) from error
    finally:
        os.close(handle)
        os.unlink(path)


def is_on_disk(x: Tensor) -> bool:
    """Return whether a tensor is mapped from a file."""
    return x.layout == torch.strided and not x.is_nested and x.untyped_storage().filename is not None
