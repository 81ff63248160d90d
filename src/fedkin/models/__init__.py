"""Models: autoencoders as stacked parameters, and classifiers as torch modules, by name.

`register`, `build` and `choose` are imported when first asked for, so that listing `MODELS` need not wait for torch.
"""

from typing import TYPE_CHECKING, Any

from fedkin.models.names import MODELS

if TYPE_CHECKING:
    from fedkin.models.catalogue import build, choose, register

__all__ = ["MODELS", "build", "choose", "register"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from fedkin.models import catalogue

        return getattr(catalogue, name)
    raise AttributeError(f"module 'fedkin.models' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
