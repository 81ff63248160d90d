"""Training steps that an NVIDIA GPU records once, as a CUDA graph, and replays.

A step of a small model is a hundred small operations. Starting each from Python takes longer than the GPU needs for
it. A recorded step is started as a whole, and computes the same.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedkin.core.device import device, execution

Step = Callable[..., Tensor]
Kind = tuple[tuple[torch.Size, torch.dtype], ...]

_BEFORE = 2
"""Steps of a kind that are computed as usual first, which also loads what the GPU needs for them."""
_ENOUGH = 8
"""Steps of a kind at least for which recording pays."""


class Recorded:
    """A function of tensors which on an NVIDIA GPU is recorded, separately for each kind of inputs.

    Calls beyond the second with inputs of the same shapes and types replay what the third one did. On other devices the
    function is simply called.

    The step takes tensors on the device, and returns one tensor; it may also change tensors that stay where they are in
    memory. What it does must depend on the inputs' shapes only, not on their values, and it must draw no random numbers
    and wait for nothing. The caller holds `ONE_AT_A_TIME`. `uses` is how many calls are expected for each kind of
    inputs; few are not recorded.
    """

    def __init__(self, step: Step, uses: int = _ENOUGH) -> None:
        self._step, self._uses = step, uses
        self._calls: dict[Kind, int] = {}
        self._recordings: dict[Kind, _Recording] = {}

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Return what the step returns; a copy, if it was replayed."""
        if device().type != "cuda" or self._uses < _ENOUGH or not execution().cuda_graphs:
            return self._step(*inputs)
        kind = tuple((part.shape, part.dtype) for part in inputs)
        if kind not in self._recordings:
            self._calls[kind] = self._calls.get(kind, 0) + 1
            if self._calls[kind] <= _BEFORE:
                return self._step(*inputs)
            self._recordings[kind] = _Recording(self._step, inputs)
        return self._recordings[kind].replayed(inputs)


class _Recording:
    def __init__(self, step: Step, inputs: tuple[Tensor, ...]) -> None:
        self.inputs = [part.clone() for part in inputs]
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.current_stream().synchronize()
        self.graph.capture_begin(capture_error_mode="relaxed")  # cuDNN allocates memory of its own
        try:
            self.output = step(*self.inputs)
        finally:
            self.graph.capture_end()

    def replayed(self, inputs: tuple[Tensor, ...]) -> Tensor:
        for place, part in zip(self.inputs, inputs, strict=True):
            place.copy_(part)
        self.graph.replay()
        return self.output.clone()
