"""Random views."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFilter
from torch import Tensor

from fedkin.methods.samples.ccfc.augmentation import (
    Augmentation,
    PillowAugmentation,
    augmentation_for,
    blurred_pixels,
    crop_boxes,
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


def test_numbers_of_a_vector_are_replaced_by_the_same_feature_of_others():
    x = torch.arange(40.0).view(10, 4)
    seen = views(Augmentation(replaced=0.5), x, rng())
    for feature in range(4):
        assert set(seen[:, feature].tolist()) <= set(x[:, feature].tolist())
    assert 0.2 < float((seen != x).float().mean()) < 0.7
    assert torch.equal(views(Augmentation(replaced=0.0), x, rng()), x)


BILINEAR, NEAREST = Image.Resampling.BILINEAR, Image.Resampling.NEAREST


SIDES = st.integers(1, 40)


def pillow_augmentation_views(how: PillowAugmentation, x: torch.Tensor, drawn: torch.Generator) -> torch.Tensor:
    return how.apply(x, how.draw(x.shape, drawn))


def images(n: int, height: int, width: int, seed: int) -> Tensor:
    """Noise, black and white, ramps: whatever there is to round."""
    noise = np.random.default_rng(seed).integers(0, 256, (n, height, width))
    noise[1::3] = np.where(noise[1::3] > 127, 255, 0)
    noise[2::3] = np.arange(height * width).reshape(height, width) % 256
    return torch.from_numpy(noise).double()


def opened(pixels: Tensor) -> Image.Image:
    return Image.fromarray(pixels.numpy().astype(np.uint8))


def same(made: Tensor, pictures: list[Image.Image]) -> bool:
    return all(np.array_equal(one.numpy(), np.array(picture)) for one, picture in zip(made, pictures, strict=True))


def crops(n: int, height: int, width: int, smallest: float, drawn: torch.Generator) -> Tensor:
    areas, ratios = drawn_crops(n, drawn)
    return crop_boxes(areas, ratios, torch.rand(2, n, generator=drawn).T, (height, width), smallest)


@settings(deadline=None, max_examples=200)
@given(
    height=SIDES, width=SIDES, seed=st.integers(0, 2**31),
    radii=st.lists(st.floats(0.125, 6.0, width=32), min_size=1, max_size=6),
)  # fmt: skip
def test_blur_is_pillows(height, width, seed, radii):
    pixels = images(len(radii), height, width, seed)
    theirs = [opened(one).filter(ImageFilter.GaussianBlur(radius)) for one, radius in zip(pixels, radii, strict=True)]
    assert same(blurred_pixels(pixels, torch.tensor(radii)), theirs)


@pytest.mark.parametrize(("height", "width"), [(28, 28), (8, 8), (20, 33)])
def test_a_view_is_what_pillow_makes_of_the_same_draws(height, width):
    pixels = images(60, height, width, 3)
    seen = pillow_augmentation_views(PillowAugmentation(), pixels[:, None].float() / 255, rng(4))
    drawn = rng(4)
    boxes = crops(60, height, width, 0.5, drawn)
    angles = (torch.rand(60, generator=drawn) * 20 - 10).tolist()
    radii = (torch.rand(60, generator=drawn) * (2.0 - 0.1) + 0.1).tolist()
    chosen = (torch.rand(60, generator=drawn) <= 0.5).tolist()
    assert 15 < sum(chosen) < 45
    for one, view, box, angle, radius, blur in zip(pixels, seen, boxes, angles, radii, chosen, strict=True):
        picture = opened(one).crop(tuple(box.tolist())).resize((width, height), BILINEAR).rotate(angle, NEAREST)
        picture = picture.filter(ImageFilter.GaussianBlur(radius)) if blur else picture
        expected = torch.from_numpy(np.array(picture)).float().div(255)
        assert torch.equal(view[0], expected)
