"""Layers that networks share, and dropout with a random generator of its own.

torch's dropout draws from one generator for the whole process, so that a client's dropout would depend on the models
trained in other threads at the same time. Here every model gets the client's generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from fedkin.core.errors import FedkinError


class Dropout(nn.Module):
    """Dropout that draws only from its own `generator`; identity in evaluation mode.

    A fraction `p` of the values is dropped; kept values are divided by ``1 - p``, so that their expectation stays
    (Srivastava et al. 2014). With `whole_channels`, ``x[i, c]`` is dropped as a whole, as torch's Dropout1d, Dropout2d
    and Dropout3d do. The training code sets the generator. A copy of the module starts without one, so that no two
    modules share a generator. Raises FedkinError if `p` is not in [0, 1].
    """

    def __init__(self, p: float = 0.5, whole_channels: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise FedkinError(f"Dropout was given p = {p}; it must be in 0 to 1.")
        self.p = p
        self.whole_channels = whole_channels
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with some values set to 0, of the same shape and type.

        Raises RuntimeError in training mode, if `p` is not 0 and no generator has been set.
        """
        if not self.training or self.p == 0:
            return x
        if self.generator is None:
            raise RuntimeError(
                "Dropout in training mode has no random generator; "
                "set one with fedkin.nn.layers.set_generator(module, generator)."
            )
        keep = 1 - self.p
        shape = x.shape[:2] + (1,) * (x.dim() - 2) if self.whole_channels else x.shape
        mask = torch.empty(shape, dtype=x.dtype, device=self.generator.device)
        mask.bernoulli_(keep, generator=self.generator).mul_(1 / keep if keep else 0.0)
        return x * mask.to(x.device)

    def extra_repr(self) -> str:
        """Return the text that `repr` shows between the brackets."""
        return f"p={self.p}, whole_channels={self.whole_channels}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "generator": None}


def linear_layers(widths: Sequence[int]) -> list[nn.Module]:
    """Return linear layers of these widths, input first, with ReLU in between."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return layers[:-1]


def normalised_layer(inputs: int, units: int) -> list[nn.Module]:
    """Return a linear layer followed by batch normalisation and ReLU."""
    return [nn.Linear(inputs, units), nn.BatchNorm1d(units), nn.ReLU()]


_OF_CHANNELS = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
_WITHOUT_SEED = (nn.AlphaDropout, nn.FeatureAlphaDropout, nn.RReLU)
_WITH_INNER_DROPOUT = (nn.RNNBase, nn.MultiheadAttention)


def with_own_dropout(module: nn.Module) -> nn.Module:
    """Replace torch's dropout layers anywhere in `module` by `Dropout`, in place; return it, or what replaces it.

    Covers `torch.nn.Dropout` and its forms for whole channels. A call of ``torch.nn.functional.dropout`` inside a
    module's own code cannot be seen from outside; `fedkin.nn.resident` seeds it on a processor. Raises FedkinError for
    other layers that draw random numbers: alpha dropout, RReLU, or dropout inside recurrent or attention layers.
    """
    for name, layer in module.named_modules():
        if isinstance(layer, _WITHOUT_SEED) or (isinstance(layer, _WITH_INNER_DROPOUT) and layer.dropout):
            raise FedkinError(
                f"Layer '{name}' ({type(layer).__name__}) draws random numbers that no seed of a run reaches; "
                "leave its dropout at 0, or put torch.nn.Dropout in its place."
            )
    own: dict[nn.Module, nn.Module] = {}
    for parent in list(module.modules()):
        for name, child in parent._modules.items():  # named_children() would skip a layer's second place
            if child is not None and _is_dropout(child):
                parent._modules[name] = own.setdefault(child, _replacement(child))
    return _replacement(module) if _is_dropout(module) else module


def set_generator(module: nn.Module, generator: torch.Generator | None) -> None:
    """Set the random generator of every `Dropout` in `module`; None removes it."""
    for layer in module.modules():
        if isinstance(layer, Dropout):
            layer.generator = generator


def takes_convolutions(shape: Sequence[int]) -> bool:
    """Whether samples of `shape` are images of 8 x 8 pixels or more."""
    return len(shape) == 3 and min(shape[1:]) >= 8


def _is_dropout(layer: nn.Module) -> bool:
    return isinstance(layer, (nn.Dropout, *_OF_CHANNELS))


def _replacement(layer: Any) -> Dropout:
    made = Dropout(layer.p, whole_channels=isinstance(layer, _OF_CHANNELS))
    return made.train(layer.training)
