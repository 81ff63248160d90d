"""Devices that networks and large searches compute on: the processor, or an accelerator such as a GPU.

A client's data, its state and what is transmitted are always in the processor's memory. Code that trains or
applies a network, or compares many points, moves what it needs to `device()`, and its results back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, cast

import torch

from fedkin.core.errors import FedkinError
from fedkin.core.files import environment

_PROCESSOR = torch.device("cpu")
_SETTINGS = threading.Lock()
"""Held while torch's settings are looked up or changed."""

_device: ContextVar[torch.device] = ContextVar("device", default=_PROCESSOR)
_computing: list[torch.device] = []
"""The device of each context that computes with CUDA at this moment."""
_saved = ExitStack()
"""What puts torch's settings back once there is none any more."""


def device() -> torch.device:
    """Return the device that this thread's networks compute on: the processor, unless `on` has set another."""
    return _device.get()


@contextmanager
def on(place: torch.device) -> Iterator[None]:
    """Set the device that this thread's networks compute on, inside the context.

    A thread that is started inside begins with the processor. Whether an NVIDIA GPU may round the factors of products
    to TF32, `torch.set_float32_matmul_precision` says, also for convolutions, for which torch has another default.
    """
    token = _device.set(place)
    try:
        with _deterministic(place) if place.type == "cuda" else nullcontext():
            yield
    finally:
        _device.reset(token)


@contextmanager
def _deterministic(place: torch.device) -> Iterator[None]:
    """Make CUDA deterministic for a while; torch warns about operations that have no deterministic form.

    The settings are the whole process's: the first context saves them, and the last one to end, whichever thread it is
    in, puts them back.
    """
    cudnn, memory = torch.backends.cudnn, cast("Any", torch.utils.deterministic)
    with _SETTINGS:
        if not _computing:
            _saved.callback(setattr, cudnn, "allow_tf32", cudnn.allow_tf32)
            _saved.callback(setattr, cudnn, "benchmark", cudnn.benchmark)
            _saved.callback(setattr, memory, "fill_uninitialized_memory", memory.fill_uninitialized_memory)
            is_on = torch.are_deterministic_algorithms_enabled()
            warns = torch.is_deterministic_algorithms_warn_only_enabled()
            _saved.callback(torch.use_deterministic_algorithms, is_on, warn_only=warns)
            _saved.enter_context(environment(CUBLAS_WORKSPACE_CONFIG=":4096:8"))  # read at the first product
        _computing.append(place)
        torch.use_deterministic_algorithms(True, warn_only=True)
        cudnn.benchmark = memory.fill_uninitialized_memory = False  # filling memory costs time
        cudnn.allow_tf32 = torch.get_float32_matmul_precision() != "highest"
    try:
        yield
    finally:
        with _SETTINGS:
            _computing.pop()
            if not _computing:
                _saved.close()


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
