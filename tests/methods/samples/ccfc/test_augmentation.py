"""Random views."""

import math

import pytest
import torch

from fedkin.methods.samples.ccfc.augmentation import (
    Augmentation,
    PillowAugmentation,
    augmentation_for,
    drawn_crops,
)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def views(how: Augmentation | PillowAugmentation, x: torch.Tensor, drawn: torch.Generator) -> torch.Tensor:
    return how.apply(x, how.draw(x.shape, drawn))


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (2, 9, 12), (12,)])
def test_views_have_the_shape_of_their_samples_and_follow_from_the_seed(shape):
    x = torch.rand(6, *shape, generator=rng(1))
    how = augmentation_for(shape)
    first, again, other = views(how, x, rng(2)), views(how, x, rng(2)), views(how, x, rng(3))
    assert first.shape == x.shape
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert float(first.min()) >= 0
    assert float(first.max()) <= 1 + 1e-5


def test_parts_that_do_not_fit_are_drawn_again_as_torchvision_does():
    wide, high = Augmentation(crop=0.5).kept(*drawn_crops(20_000, rng()))
    area, log_ratio = wide * high, (wide / high).log()
    assert float(torch.maximum(wide, high).max()) <= 1
    assert 0.5 <= float(area.min()) < 0.501
    assert float(log_ratio.abs().max()) <= math.log(4 / 3)
    # Up to 3/4 any ratio fits; above, a share that falls to 0 at the whole: log area / log(3/4).
    a = torch.linspace(0.5, 1, 10_001)
    density = (a.log() / math.log(3 / 4)).clamp_max(1)
    expected = float((a * density).sum() / density.sum())
    assert abs(float(area.mean()) - expected) < 0.005
    assert expected < 0.7


def test_numbers_of_a_vector_are_replaced_by_the_same_feature_of_others():
    x = torch.arange(40.0).view(10, 4)
    seen = views(Augmentation(replaced=0.5), x, rng())
    for feature in range(4):
        assert set(seen[:, feature].tolist()) <= set(x[:, feature].tolist())
    assert 0.2 < float((seen != x).float().mean()) < 0.7
    assert torch.equal(views(Augmentation(replaced=0.0), x, rng()), x)
