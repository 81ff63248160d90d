"""Custom training of clients, chosen by their owner: an optimiser of torch's or their own, and augmentation.

The built-in optimisers of `fedkin.nn.descent` work on one flat vector and are faster; these work on any parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

from fedkin.core.errors import FedkinError, in_short
from fedkin.core.seeds import draw_seed, seeded_globally
from fedkin.core.trusted_packages import named_object

OptimizerFactory = Callable[[Iterable[nn.Parameter], float], torch.optim.Optimizer]
"""``factory(parameters, learning_rate)`` returns a new optimiser."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """Custom optimiser and augmentation of the clients' training.

    ``optimizer(parameters, learning_rate)`` returns a new `torch.optim.Optimizer` for each training; ``None`` is for
    the one that `Descent` names. The augmentation is a function from a batch of samples float32 ``(n, *shape)`` to one
    of the same shape, called for every batch of training. What it draws from torch's global generator is repeatable.
    """

    optimizer: OptimizerFactory | None = None
    augmentation: Callable[[Tensor], Tensor] | None = None

    def optimizer_for(self, module: nn.Module, learning_rate: float) -> torch.optim.Optimizer | None:
        """Return a new optimiser of the trainable parameters, or ``None`` if the recipe has none of its own.

        Raises FedkinError if it cannot be made, or is not an optimiser.
        """
        if self.optimizer is None:
            return None
        trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
        try:
            made = self.optimizer(trainable, learning_rate)
        except Exception as error:  # a user's own function may raise anything
            raise FedkinError(f"The optimizer given cannot be made: {in_short(error)}.") from error
        if not isinstance(made, torch.optim.Optimizer):
            raise FedkinError(f"The optimizer given made a {type(made).__name__}, not a torch.optim.Optimizer.")
        return made

    def augmented(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Return the augmented batch; draws from torch's global generator are seeded by `rng`.

        Raises FedkinError if the augmentation fails, or returns another shape.
        """
        if self.augmentation is None:
            return x
        with seeded_globally(draw_seed(rng), accelerators=True):
            try:
                made = self.augmentation(x.clone())
            except Exception as error:
                raise FedkinError(f"The augmentation given fails on {tuple(x.shape)}: {in_short(error)}.") from error
        if not isinstance(made, Tensor) or made.shape != x.shape:
            got = f"shape {tuple(made.shape)}" if isinstance(made, Tensor) else f"type {type(made).__name__}"
            raise FedkinError(f"The augmentation given turns shape {tuple(x.shape)} into {got}; it must keep it.")
        return made.to(x)


_recipes: WeakValueDictionary[str, Recipe] = WeakValueDictionary()


def register_recipe(name: str, recipe: Recipe) -> None:
    """Register `recipe` under `name` in this process, for as long as `recipe` lives."""
    _recipes[name] = recipe


def recipe_of(name: str) -> Recipe:
    """Return the recipe registered as `name`, or the one at a dotted path ``package.module:recipe``.

    Raises FedkinError if there is no such recipe.
    """
    if ":" in name:
        found = named_object(name, "Recipe")
        if not isinstance(found, Recipe):
            raise FedkinError(f"Recipe '{name}' is of type {type(found).__name__}, not a fedkin.nn.recipes.Recipe.")
        return found
    known = _recipes.get(name)
    if known is None:
        raise FedkinError(f"Recipe '{name}' is not registered; the estimator that it was given to no longer exists.")
    return known
