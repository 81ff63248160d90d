"""Random views."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.methods.samples.ccfc.augmentation import (
    Augmentation,
    PillowAugmentation,
    augmentation_for,
    crop_boxes,
    drawn_crops,
)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def views(how: Augmentation | PillowAugmentation, x: torch.Tensor, drawn: torch.Generator) -> torch.Tensor:
    return how.apply(x, how.draw(x.shape, drawn))


@pytest.mark.parametrize("how", ["affine", "pillow"])
@pytest.mark.parametrize("shape", [(1, 28, 28), (1, 9, 12), (3, 32, 32), (2, 9, 12), (12,)])
def test_views_have_the_shape_of_their_samples_and_follow_from_the_seed(shape, how):
    x = torch.rand(6, *shape, generator=rng(1))
    augmentation = augmentation_for(shape, views=how if shape[0] == 1 else "affine")
    first, again, other = (views(augmentation, x, rng(seed)) for seed in (2, 2, 3))
    assert first.shape == x.shape
    assert first.dtype == torch.float32
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert float(first.min()) >= 0
    assert float(first.max()) <= 1 + 1e-5


def test_numbers_of_a_vector_are_replaced_by_the_same_feature_of_others():
    x = torch.arange(40.0).view(10, 4)
    seen = views(Augmentation(replaced=0.5), x, rng())
    for feature in range(4):
        assert set(seen[:, feature].tolist()) <= set(x[:, feature].tolist())
    assert 0.2 < float((seen != x).float().mean()) < 0.7
    assert torch.equal(views(Augmentation(replaced=0.0), x, rng()), x)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**31))
def test_crops_lie_in_the_image_and_are_those_that_were_drawn_where_these_fit(height, width, seed):
    drawn = rng(seed)
    areas, ratios = drawn_crops(20, drawn)
    left, top, right, bottom = crop_boxes(areas, ratios, torch.rand(2, 20, generator=drawn).T, (height, width), 0.5).T
    assert int(left.min()) >= 0
    assert int(top.min()) >= 0
    assert int(right.max()) <= width
    assert int(bottom.max()) <= height
    assert int((right - left).min()) > 0
    assert int((bottom - top).min()) > 0


def test_without_turns_crops_and_blur_pillow_gives_the_image_to_8_bits():
    x = torch.rand(5, 1, 12, 12, generator=rng())
    how = PillowAugmentation(crop=1.0, turn=0.0, blur=-1.0)
    areas, ratios, *others = how.draw(x.shape, rng(1))
    assert torch.equal(how.apply(x, (areas, torch.full_like(ratios, 0.5), *others)), (x * 255).round() / 255)
    assert torch.equal(views(PillowAugmentation(), x, rng(2)) * 255 % 1, torch.zeros_like(x))
