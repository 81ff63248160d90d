"""Maps of oriented gradients: against a convolution that says the same at greater length, and what they leave alone."""

import math

import pytest
import torch
from torch.nn.functional import conv2d, grid_sample

from fedkin.core import FedkinError
from fedkin.features.gradients import gradients, upright


def images(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def blurred(maps: torch.Tensor, width: float) -> torch.Tensor:
    reach = int(3 * width + 0.5)
    kernel = torch.exp(-torch.arange(-reach, reach + 1).square() / (2 * width**2))
    kernel = torch.outer(kernel, kernel) / kernel.sum() ** 2
    return conv2d(maps.flatten(0, 1)[:, None], kernel[None, None], padding=reach).view(maps.shape)


def test_they_are_blurred_maps_of_directions_read_at_a_grid():
    x = images(3, 1, 28, 28)
    straight, maps = upright(x), torch.zeros(3, 8, 28, 28)
    for n, image in enumerate(straight[:, 0]):
        for row in range(28):
            for column in range(28):
                down = image[row + 1, column] - image[row - 1, column] if 0 < row < 27 else torch.zeros(())
                right = image[row, column + 1] - image[row, column - 1] if 0 < column < 27 else torch.zeros(())
                angle = math.atan2(down, right) % (2 * math.pi)
                for direction in range(8):
                    apart = abs(angle - direction * math.pi / 4)
                    share = max(0.0, 1 - min(apart, 2 * math.pi - apart) / (math.pi / 4))
                    maps[n, direction, row, column] = share * math.hypot(down, right)
    expected = blurred(maps, 2.0)[:, :, 1::4, 1::4].clamp_min(0).sqrt().flatten(1)
    torch.testing.assert_close(gradients(x), expected / expected.norm(dim=1, keepdim=True), atol=1e-3, rtol=1e-3)


def test_images_are_sheared_as_torch_would():
    x = images(4, 3, 20, 28) * torch.linspace(0, 1, 28)
    rows, columns = torch.meshgrid(torch.arange(20.0), torch.arange(28.0), indexing="ij")
    mass = x.mean(1) / x.mean(1).sum((1, 2), keepdim=True)
    row, column = ((mass * at).sum((1, 2), keepdim=True) for at in (rows, columns))
    lean = (mass * (rows - row) * (columns - column)).sum((1, 2)) / (mass * (rows - row) ** 2).sum((1, 2))
    source = columns + lean[:, None, None] * (rows - row)
    grid = torch.stack([2 * source / 27 - 1, (2 * rows / 19 - 1).expand_as(source)], -1)
    torch.testing.assert_close(upright(x), grid_sample(x, grid, align_corners=True), atol=1e-4, rtol=1e-4)


def test_what_leans_is_set_upright():
    leaning = torch.zeros(1, 1, 28, 28)
    for row in range(4, 24):
        leaning[0, 0, row, 5 + row // 2 : 8 + row // 2] = 1.0
    columns = upright(leaning)[0, 0, 6:22] @ torch.arange(28.0) / upright(leaning)[0, 0, 6:22].sum(1)
    assert columns.std() < 0.3
    assert (leaning[0, 0, 6:22] @ torch.arange(28.0) / 3).std() > 2
    assert torch.equal(upright(torch.zeros(1, 1, 9, 9)), torch.zeros(1, 1, 9, 9))
    assert torch.equal(upright(-leaning), -leaning)


def test_contrast_does_not_matter_and_an_image_without_edges_has_none():
    x = images(3, 1, 28, 28)
    torch.testing.assert_close(gradients(0.3 * x), gradients(x), atol=1e-3, rtol=0)
    torch.testing.assert_close(gradients(x).norm(dim=1), torch.ones(3))
    assert gradients(torch.full((1, 1, 28, 28), 0.7)).abs().max() == 0.0


def test_a_turned_image_has_turned_features():
    x = images(2, 1, 29, 29)
    turned = gradients(x.flip(2, 3)).view(2, 8, 8, 8)
    torch.testing.assert_close(turned.roll(4, 1).flip(2, 3).flatten(1), gradients(x), atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("shape", "points"),
    [((1, 8, 8), 64), ((1, 28, 28), 49), ((3, 32, 32), 49), ((3, 55, 55), 49), ((3, 224, 224), 49), ((1, 8, 24), 192)],
)
def test_images_of_any_size_have_about_as_many_points(shape: tuple[int, ...], points: int):
    assert gradients(images(2, *shape)).shape == (2, 8 * points)


def test_the_strongest_channel_counts():
    x = images(2, 3, 28, 28)
    x[:, [0, 2]] *= 1e-6
    torch.testing.assert_close(gradients(x), gradients(x[:, 1:2]), atol=1e-3, rtol=0)
    grey = images(2, 1, 28, 28)
    torch.testing.assert_close(gradients(grey.expand(2, 3, 28, 28)), gradients(grey))


@pytest.mark.parametrize("shape", [(2, 1, 7, 28), (2, 40)])
def test_other_samples_are_refused(shape: tuple[int, ...]):
    with pytest.raises(FedkinError, match="8 x 8"):
        gradients(torch.zeros(shape))
