"""Models: autoencoders as stacked parameters, and classifiers as torch modules, by name.

`register`, `forget`, `build`, `choose` and `loss_of` are imported on first access, so that listing `MODELS` does not
import torch.
"""

from typing import TYPE_CHECKING, Any

from fedkin.nn.network_names import MODELS

if TYPE_CHECKING:
    from fedkin.nn.modules import build, choose, forget, loss_of, register

__all__ = ["MODELS", "build", "choose", "forget", "loss_of", "register"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from fedkin.nn import modules

        return getattr(modules, name)
    raise AttributeError(f"module 'fedkin.nn' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
