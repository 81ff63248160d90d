"""Maps of oriented gradients: against a convolution that says the same at greater length, and what they leave alone."""

import math

import pytest
import torch
from torch.nn.functional import conv2d, grid_sample

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


def test_contrast_does_not_matter_and_an_image_without_edges_has_none():
    x = images(3, 1, 28, 28)
    torch.testing.assert_close(gradients(0.3 * x), gradients(x), atol=1e-3, rtol=0)
    torch.testing.assert_close(gradients(x).norm(dim=1), torch.ones(3))
    assert gradients(torch.full((1, 1, 28, 28), 0.7)).abs().max() == 0.0


@pytest.mark.parametrize(
    ("shape", "points"),
    [((1, 8, 8), 64), ((1, 28, 28), 49), ((3, 32, 32), 49), ((3, 55, 55), 49), ((3, 224, 224), 49), ((1, 8, 24), 192)],
)
def test_images_of_any_size_have_about_as_many_points(shape: tuple[int, ...], points: int):
    assert gradients(images(2, *shape)).shape == (2, 8 * points)
