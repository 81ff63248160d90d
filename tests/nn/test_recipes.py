"""Training with an optimiser and augmentation of one's own is torch's, batch for batch."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedkin.core import FedkinError
from fedkin.nn.descent import LocalTraining, Recipe, recipe_of, register_recipe, train_locally
from fedkin.nn.modules import Classifier

NET = Classifier("perceptron", (4,), 3)
START = NET.initial(torch.Generator().manual_seed(0))
X, Y = torch.randn(24, 4, generator=torch.Generator().manual_seed(1)), torch.arange(24) % 3
RECIPES: list[Recipe] = []


def named(recipe: Recipe) -> str:
    RECIPES.append(recipe)
    register_recipe(f"test#{len(RECIPES)}", recipe)
    return f"test#{len(RECIPES)}"


def trained(descent: LocalTraining) -> Tensor:
    return train_locally(NET, START, X, Y, torch.Generator().manual_seed(2), descent)[0]


def by_hand(make: Callable[[Any], torch.optim.Optimizer], steps: int = 5) -> Tensor:
    """Full batches with torch's own loop."""
    module = NET.module(START)
    optimizer = make(module.parameters())

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(X), Y)
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return torch.cat([one.detach().flatten() for one in module.parameters()])


@pytest.mark.parametrize(
    "kind",
    [
        partial(torch.optim.SGD, momentum=0.9, nesterov=True),
        torch.optim.AdamW,
        partial(torch.optim.RMSprop, centered=True),
        partial(torch.optim.LBFGS, max_iter=3),
    ],
)
def test_an_optimiser_of_torch_does_what_it_does_in_a_loop_by_hand(kind: Any) -> None:
    recipe = named(Recipe(lambda parameters, rate: kind(parameters, lr=rate)))
    found = trained(LocalTraining(steps=5, batch_size=24, learning_rate=0.02, recipe=recipe))
    expected = by_hand(lambda parameters: kind(parameters, lr=0.02))
    assert torch.allclose(found, expected, atol=1e-3)  # a gradient near 0 moves some optimisers as far as any other
    assert (found - expected).norm() < 0.01 * (found - START).norm()


def test_augmentation_is_new_for_every_batch_and_repeatable() -> None:
    seen: list[Tensor] = []

    def noisy(x: Tensor) -> Tensor:
        seen.append(x + torch.randn_like(x))
        return seen[-1]

    descent = LocalTraining(epochs=2, batch_size=24, learning_rate=0.1, recipe=named(Recipe(augmentation=noisy)))
    before = torch.get_rng_state()
    first, second = trained(descent), trained(descent)
    assert torch.equal(first, second)
    assert torch.equal(seen[0], seen[2])
    assert not torch.equal(seen[0].sort(0).values, seen[1].sort(0).values)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(first, trained(LocalTraining(epochs=2, batch_size=24, learning_rate=0.1)))


def test_frozen_layers_stay() -> None:
    module = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3))
    module[0].requires_grad_(False)
    trainable = [one for one in module.parameters() if one.requires_grad]
    made = Recipe(lambda parameters, rate: torch.optim.SGD(parameters, lr=rate)).optimizer_for(module, 0.1)
    assert made is not None
    assert [id(one) for one in made.param_groups[0]["params"]] == [id(one) for one in trainable]


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        (Recipe(lambda parameters, rate: 7), "The optimizer given made a int, not a torch.optim.Optimizer."),
        (Recipe(lambda parameters, rate: 1 / 0), "The optimizer given cannot be made: ZeroDivisionError: division by"),
        (Recipe(augmentation=lambda x: x[:, :2]), "The augmentation given turns shape (24, 4) into shape (24, 2)"),
        (Recipe(augmentation=lambda x: None), "The augmentation given turns shape (24, 4) into type NoneType"),
        (Recipe(augmentation=lambda x: x.no), "The augmentation given fails on (24, 4): AttributeError"),
    ],
)
def test_what_cannot_be_used_is_refused(recipe: Any, sentence: str) -> None:
    with pytest.raises(FedkinError) as raised:
        trained(LocalTraining(batch_size=24, recipe=named(recipe)))
    assert str(raised.value).startswith(sentence)


MINE = Recipe(lambda parameters, rate: torch.optim.SGD(parameters, lr=rate))


def test_a_dotted_path_leads_to_a_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedkin.nn.descent.named_object", lambda path, what: {"a:mine": MINE, "a:other": 7}[path])
    assert recipe_of("a:mine") is MINE
    with pytest.raises(FedkinError, match=r"Recipe 'a:other' is of type int, not a fedkin\.nn\.descent\.Recipe"):
        recipe_of("a:other")
    with pytest.raises(
        FedkinError, match="Recipe 'gone' is not registered; the estimator that it was given to no longer exists"
    ):
        recipe_of("gone")
