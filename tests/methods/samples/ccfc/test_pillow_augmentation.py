"""Random views of images, pixel for pixel as Pillow makes them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFilter
from torch import Tensor

from fedkin.methods.samples.ccfc.augmentation import (
    PillowAugmentation,
    blurred_pixels,
    crop_boxes,
    cropped,
    drawn_crops,
    turned,
)

BILINEAR, NEAREST = Image.Resampling.BILINEAR, Image.Resampling.NEAREST
SIDES = st.integers(1, 40)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def views(how: PillowAugmentation, x: torch.Tensor, drawn: torch.Generator) -> torch.Tensor:
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


@st.composite
def boxes_in(draw: st.DrawFn, n: int, height: int, width: int) -> Tensor:
    sides = []
    for side in (width, height):
        begins = [draw(st.integers(0, side - 1)) for _ in range(n)]
        sides.append([(begin, draw(st.integers(begin + 1, side))) for begin in begins])
    return torch.tensor([(left, top, right, bottom) for (left, right), (top, bottom) in zip(*sides, strict=True)])


@settings(deadline=None, max_examples=200)
@given(data=st.data(), height=SIDES, width=SIDES, seed=st.integers(0, 2**31))
def test_crops_are_pillows(data, height, width, seed):
    pixels, boxes = images(4, height, width, seed), data.draw(boxes_in(4, height, width))
    theirs = [opened(one).crop(tuple(box.tolist())) for one, box in zip(pixels, boxes, strict=True)]
    assert same(cropped(pixels, boxes), [one.resize((width, height), BILINEAR) for one in theirs])


@settings(deadline=None, max_examples=200)
@given(
    height=SIDES, width=SIDES, seed=st.integers(0, 2**31),
    angles=st.lists(st.floats(-89, 89) | st.sampled_from([0.0, -0.0, 1e-17, 45.0, -30.0]), min_size=1, max_size=6),
)  # fmt: skip
def test_turns_are_pillows(height, width, seed, angles):
    pixels = images(len(angles), height, width, seed)
    made = turned(pixels, torch.tensor(angles, dtype=torch.float64))
    assert same(made, [opened(one).rotate(angle, NEAREST) for one, angle in zip(pixels, angles, strict=True)])


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
    seen = views(PillowAugmentation(), pixels[:, None].float() / 255, rng(4))
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


def test_a_crop_is_the_first_of_ten_draws_that_fits():
    left, top, right, bottom = crops(20_000, 28, 28, 0.5, rng()).T
    wide, high = right - left, bottom - top
    assert int(left.min()) == int(top.min()) == 0
    assert int(right.max()) == int(bottom.max()) == 28
    assert int(torch.minimum(wide, high).min()) == round(math.sqrt(0.5 * 0.75) * 28)
    # torchvision's own loop, in plain words, on draws of its own.
    random = np.random.default_rng(0)
    areas = []
    while len(areas) < 20_000:
        area, ratio = random.uniform(0.5, 1) * 784, math.exp(random.uniform(-1, 1) * math.log(4 / 3))
        sides = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if max(sides) <= 28:  # who does not fit ten times in turn is one in ten thousand
            areas.append(sides[0] * sides[1])
    assert float((wide * high).double().mean()) == pytest.approx(np.mean(areas), abs=3)
    places = left[wide == 24].bincount(minlength=5) / (wide == 24).sum()
    assert torch.allclose(places, torch.full((5,), 0.2), atol=0.05)


@pytest.mark.parametrize(
    ("height", "width", "box"), [(40, 10, [0, 13, 10, 26]), (10, 40, [13, 0, 26, 10]), (9, 9, [0, 0, 9, 9])]
)
def test_where_no_part_fits_the_largest_in_the_middle_is_kept(height, width, box):
    smallest = 1.0 if height != width else 1.5  # more than there is
    assert crops(3, height, width, smallest, rng()).tolist() == [box] * 3


def test_views_follow_from_the_seed_and_keep_their_samples():
    x = torch.rand(12, 1, 28, 28, generator=rng(1))
    before = x.clone()
    first, again, other = (views(PillowAugmentation(), x, rng(seed)) for seed in (2, 2, 3))
    assert torch.equal(x, before)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.dtype == torch.float32
    assert torch.equal((first * 255).round() / 255, first)


def test_nothing_drawn_nothing_changed():
    x = images(5, 28, 28, 0)[:, None].float() / 255
    boxes = torch.tensor([[0, 0, 28, 28]] * 5)
    still = turned(cropped((x[:, 0].double() * 255).round(), boxes), torch.zeros(5))
    assert torch.allclose(still / 255, x[:, 0].double(), atol=1e-6)
    assert views(PillowAugmentation(), x[:0], rng()).shape == (0, 1, 28, 28)
