"""Devices that networks and large searches compute on: the processor, or an accelerator such as a GPU.

A client's data, its state and what is transmitted are always in the processor's memory. Code that trains or
applies a network, or compares many points, moves what it needs to `device()`, and its results back.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch

from fedkin.core.errors import FedkinError

_PROCESSOR = torch.device("cpu")
_SETTINGS = threading.Lock()
"""Held while torch's settings are looked up or changed."""
_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"

_device: ContextVar[torch.device] = ContextVar("device", default=_PROCESSOR)
_saved: list[tuple[Any, ...]] = []
"""Settings to put back, once for each context that computes with CUDA at this moment."""


def device() -> torch.device:
    """Return the device that this thread's networks compute on: the processor, unless `on` has set another."""
    return _device.get()


@contextmanager
def on(place: torch.device, tf32: bool | None = None) -> Iterator[None]:
    """Set the device that this thread's networks compute on, inside the context.

    A thread that is started inside begins with the processor.

    `tf32` says whether an NVIDIA GPU may round the factors of products to TF32, for the whole process: by default, as
    `torch.set_float32_matmul_precision` says, also for convolutions, for which torch itself has another default.
    """
    token = _device.set(place)
    try:
        with _deterministic(tf32) if place.type == "cuda" else nullcontext():
            yield
    finally:
        _device.reset(token)


@contextmanager
def _deterministic(tf32: bool | None) -> Iterator[None]:
    """Make CUDA deterministic for a while; torch warns about operations that have no deterministic form.

    The settings are the whole process's: the first context saves them, and the last one to end, whichever thread it is
    in, puts them back.
    """
    with _SETTINGS:
        _saved.append(_saved[0] if _saved else _settings())
        os.environ.setdefault(_WORKSPACE, ":4096:8")  # read when the first product is computed
        precision = torch.get_float32_matmul_precision() if tf32 is None else "high" if tf32 else "highest"
        _apply(True, True, False, False, precision, precision != "highest")  # filling memory costs time
    try:
        yield
    finally:
        with _SETTINGS:
            *settings, workspace = _saved.pop()
            if not _saved:
                _apply(*settings)
                if workspace is None:
                    os.environ.pop(_WORKSPACE, None)


def _settings() -> tuple[Any, ...]:
    """Return torch's settings in the order of `_apply`, and the environment's."""
    cudnn, memory = torch.backends.cudnn, torch.utils.deterministic
    is_deterministic = torch.are_deterministic_algorithms_enabled()
    warns, precision = torch.is_deterministic_algorithms_warn_only_enabled(), torch.get_float32_matmul_precision()
    fills = memory.fill_uninitialized_memory  # type: ignore[attr-defined]
    settings = (is_deterministic, warns, fills, cudnn.benchmark, precision, cudnn.allow_tf32)
    return *settings, os.environ.get(_WORKSPACE)


def _apply(deterministic: bool, warn_only: bool, fills: bool, benchmark: bool, precision: str, tf32: bool) -> None:
    torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
    torch.utils.deterministic.fill_uninitialized_memory = fills  # type: ignore[attr-defined]
    torch.set_float32_matmul_precision(precision)
    # After the precision, which sets TF32 as well.
    torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = benchmark, tf32


def device_named(name: str, option: str) -> torch.device:
    """Return the device called "cpu", "cuda", "cuda:1" or as torch names it; "auto" is a GPU if there is one.

    `option` is the option that gave the name, for the error message, such as ``'device.name'`` in quotes. Raises
    FedkinError if there is no such device here.
    """
    devices = {"cpu": _PROCESSOR}
    if torch.accelerator.is_available() and (kind := torch.accelerator.current_accelerator()) is not None:
        names = [kind.type, *(f"{kind.type}:{index}" for index in range(torch.accelerator.device_count()))]
        devices |= {each: torch.device(each) for each in names}
    if name == "auto":
        return [*devices.values(), _PROCESSOR][1]
    if name not in devices:
        raise FedkinError(f"{option} is '{name}'; it should be auto or a device of this machine: {', '.join(devices)}.")
    return devices[name]
