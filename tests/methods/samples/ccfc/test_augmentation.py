"""Random views."""

import math

import pytest
import torch

from fedkin.core import FedkinError
from fedkin.methods.samples.ccfc.augmentation import (
    Augmentation,
    PillowAugmentation,
    augmentation_for,
    blurred,
    drawn_crops,
)

STILL = Augmentation(crop=1.0, turn=0.0, blur=0.0)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(n: int = 8, channels: int = 1, side: int = 28) -> torch.Tensor:
    return torch.rand(n, channels, side, side, generator=rng(5))


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


def test_a_whole_crop_without_a_turn_changes_little_but_the_ratio_of_sides():
    flat = torch.full((5, 1, 28, 28), 0.7)
    assert torch.allclose(views(STILL, flat, rng())[:, :, 1:-1, 1:-1], flat[:, :, 1:-1, 1:-1], atol=1e-5)


def test_a_mirror_image_of_a_mirror_image_is_the_image(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fedkin.methods.samples.ccfc.augmentation.RATIO", 0.0)
    x = images()
    assert torch.allclose(views(STILL, x, rng()), x, atol=1e-4)
    always = Augmentation(crop=1.0, turn=0.0, blur=0.0, mirror=1.0)
    assert torch.allclose(views(always, x, rng()), x.flip(3), atol=1e-4)


def test_a_turn_goes_round_the_middle_by_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fedkin.methods.samples.ccfc.augmentation.RATIO", 0.0)
    x = torch.zeros(200, 1, 41, 41)
    x[:, :, 20, 36] = 1.0  # 16 pixels to the right of the middle
    seen = views(Augmentation(crop=1.0, turn=30.0, blur=0.0), x, rng())[:, 0]
    at = torch.arange(41) - 20.0
    mass = seen.sum((1, 2))
    down, right = (seen.sum(2) @ at) / mass, (seen.sum(1) @ at) / mass
    angles = torch.rad2deg(torch.atan2(down, right))
    assert torch.allclose((down**2 + right**2).sqrt(), torch.tensor(16.0), atol=0.5)
    assert float(angles.abs().max()) <= 31
    assert float(angles.min()) < -20
    assert float(angles.max()) > 20


def test_a_crop_keeps_at_least_the_share_asked_for():
    x = torch.ones(300, 1, 28, 28)
    ramp = torch.linspace(0, 1, 28).expand(300, 1, 28, 28)
    halved = Augmentation(crop=0.5, turn=0.0, blur=0.0)
    seen = views(halved, ramp, rng())
    width = (seen[..., 14, 26] - seen[..., 14, 1])[:, 0] / (25 / 27)
    assert float(width.min()) >= math.sqrt(0.5 * 3 / 4) - 0.02
    assert float(width.max()) <= 1.02
    assert torch.allclose(
        views(Augmentation(crop=0.5, turn=0.0, blur=0.0), x, rng())[:, :, 3:-3, 3:-3].mean(), x.mean()
    )


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


def test_where_no_part_fits_the_whole_is_kept():
    assert torch.equal(STILL.kept(*drawn_crops(50, rng())), torch.ones(2, 50))


def test_blur_is_a_gaussian_of_at_most_two_pixels_in_28():
    x = torch.zeros(400, 1, 29, 29)
    x[:, :, 14, 14] = 1.0
    half = Augmentation(crop=1.0, turn=0.0, blur=0.5)
    seen = blurred(x, half._spreads(half.draw(x.shape, rng()), 29))[:, 0]
    assert torch.allclose(seen.sum((1, 2)), torch.tensor(1.0), atol=1e-4)
    at = (torch.arange(29) - 14.0).square()
    spread = (seen.sum(1) @ at).sqrt()
    assert 0.4 < float((spread > 1e-3).float().mean()) < 0.6
    assert 1.8 < float(spread.max()) < 2.1


def test_blur_agrees_with_scipys():
    ndimage = pytest.importorskip("scipy.ndimage")
    x = images(1, side=28)
    seen = blurred(x, torch.tensor([1.3]))[0, 0, 9:-9, 9:-9]
    theirs = torch.from_numpy(ndimage.gaussian_filter(x[0, 0].double().numpy(), 1.3, truncate=8))[9:-9, 9:-9]
    assert torch.allclose(seen.double(), theirs, atol=2e-3)


def test_views_may_be_grey_though_colours_do_not_change_otherwise():
    seen = views(Augmentation(crop=1.0, turn=0.0, blur=0.0, grey=1.0), torch.rand(4, 3, 8, 8), torch.Generator())
    assert torch.allclose(seen[:, 0], seen[:, 2])


def test_grey_views_of_coloured_images_have_equal_channels():
    x = images(6, channels=3)
    seen = views(Augmentation(crop=1.0, turn=0.0, blur=0.0, jitter=0.4, jittered=1.0, grey=1.0), x, rng())
    assert torch.allclose(seen[:, 0], seen[:, 1], atol=1e-6)
    assert not torch.allclose(seen[:, 0], x[:, 0], atol=1e-2)


def test_numbers_of_a_vector_are_replaced_by_the_same_feature_of_others():
    x = torch.arange(40.0).view(10, 4)
    seen = views(Augmentation(replaced=0.5), x, rng())
    for feature in range(4):
        assert set(seen[:, feature].tolist()) <= set(x[:, feature].tolist())
    assert 0.2 < float((seen != x).float().mean()) < 0.7
    assert torch.equal(views(Augmentation(replaced=0.0), x, rng()), x)


def test_views_by_the_pixel_are_of_grey_images_in_the_unit_interval():
    assert augmentation_for((1, 28, 28), views="pillow") == PillowAugmentation(crop=0.5, turn=10.0, blur=0.5)
    assert augmentation_for((1, 28, 28), views="affine") == Augmentation()
    for shape in [(3, 28, 28), (12,)]:
        with pytest.raises(FedkinError, match=r"the samples have the shape \(.*\); 'affine' takes any"):
            augmentation_for(shape, views="pillow")
    with pytest.raises(FedkinError, match=r"shape \(1, 8, 8\) and values beyond \[0, 1\]"):
        augmentation_for((1, 8, 8), unit=False, views="pillow")
