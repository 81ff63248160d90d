"""What samples are compared by: named features that need no training, and torch modules by their path."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn.functional import normalize

from fedkin.core.errors import unknown_name

_FEATURES: dict[str, Callable[[Tensor], Tensor]] = {}


def extract(name: str, x: Tensor) -> Tensor:
    """Features of samples.

    Parameters
    ----------
    name : str
        "raw": the numbers of a sample, flattened. "unit": these, scaled to Euclidean length 1.
    x : Tensor
        float32 ``(n, *shape)``.

    Returns
    -------
    Tensor
        float32 ``(n, width)``.

    Raises
    ------
    FedkinError
        If there are no such features.
    """
    if name not in _FEATURES:
        raise unknown_name("features", name, _FEATURES)
    return _FEATURES[name](x)


def _raw(x: Tensor) -> Tensor:
    return x.flatten(1)


def _unit(x: Tensor) -> Tensor:
    return normalize(x.flatten(1), dim=1)


_FEATURES |= {"raw": _raw, "unit": _unit}
