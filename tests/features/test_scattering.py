"""The scattering transform: against plain convolutions on mirrored images, and what it leaves alone."""

import math

import pytest
import torch
from torch.nn.functional import conv2d, normalize, pad

from fedkin.core import FedkinError
from fedkin.features.scattering import scattering


def images(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def envelope(width: float, reach: int) -> torch.Tensor:
    apart = torch.arange(-reach, reach + 1)
    kernel = torch.exp(-(apart[:, None].square() + apart.square()) / (2 * width**2))
    return kernel / kernel.sum()


def convolved(maps: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    reach = len(kernel) // 2
    padded = pad(maps.flatten(0, 1)[:, None], (reach,) * 4, mode="reflect")
    parts = [conv2d(padded, part[None, None].contiguous()) for part in (kernel.real, kernel.imag)]
    return torch.complex(*parts).view(maps.shape)


def moduli(maps: torch.Tensor, scale: int) -> torch.Tensor:
    """By eight Morlet wavelets that do not see what is constant: ``(n, maps, 8, height, width)``."""
    width, reach = 0.8 * 2**scale, math.ceil(3.2 * 2**scale)
    apart = torch.arange(-reach, reach + 1)
    found = []
    for direction in range(8):
        turn, shape = math.pi * direction / 8, envelope(width, reach)
        phase = 3 * math.pi / 4 / 2**scale * (math.sin(turn) * apart[:, None] + math.cos(turn) * apart)
        wave = torch.polar(shape, phase)
        found.append(convolved(maps, wave - wave.sum() * shape).abs())
    return torch.stack(found, 2)


def test_they_are_blurred_moduli_of_wavelets_and_of_their_wavelets():
    x = images(3, 1, 30, 28)
    fine, coarse = moduli(x, 0)[:, 0], moduli(x, 1)[:, 0]
    blur = torch.complex(envelope(1.6, 7), torch.zeros(15, 15))
    first = convolved(torch.cat([x, fine], 1), blur).real[:, :, 0::4, 1::4]
    # The coarser maps are known at every second pixel, and blurred among those.
    both = moduli(fine, 1).flatten(1, 2)
    halves = torch.cat([coarse, both], 1)[:, :, 0::2, 1::2]
    second = convolved(halves, torch.complex(envelope(0.8, 4), torch.zeros(9, 9))).real[:, :, ::2, ::2]
    expected = normalize(torch.cat([first, second], 1).flatten(1), dim=1)
    assert expected.shape == (3, 81 * 8 * 7)
    torch.testing.assert_close(scattering(x), expected, atol=1e-5, rtol=1e-4)


def test_an_image_turned_by_ninety_degrees_has_its_directions_turned():
    x = images(2, 1, 29, 29)
    straight, turned = (scattering(image).view(2, 81, 8, 8) for image in (x, x.rot90(1, (2, 3))))
    for start in (1, 9):
        expected = straight[:, start : start + 8].roll(4, 1).rot90(1, (2, 3))
        torch.testing.assert_close(turned[:, start : start + 8], expected, atol=1e-5, rtol=1e-4)
    both = straight[:, 17:].unflatten(1, (8, 8)).roll((4, 4), (1, 2)).rot90(1, (3, 4))
    torch.testing.assert_close(turned[:, 17:], both.flatten(1, 2), atol=1e-5, rtol=1e-4)


def test_what_is_constant_has_no_waves():
    maps = scattering(torch.full((1, 3, 28, 28), 0.7)).view(81, 49)
    torch.testing.assert_close(maps[0], torch.full((49,), 1 / 7))
    assert maps[1:].abs().max() < 1e-5
    assert scattering(torch.zeros(1, 1, 8, 8)).abs().max() == 0


def test_contrast_makes_no_difference_and_a_shift_by_a_pixel_little():
    digit = images(1, 1, 12, 12).repeat_interleave(2, 2).repeat_interleave(2, 3)
    x = pad(digit, (4, 4, 4, 4))
    torch.testing.assert_close(scattering(3 * x), scattering(x))
    moved = x.roll(1, 3)
    pixels = (normalize(x.flatten(1)) - normalize(moved.flatten(1))).norm()
    assert (scattering(x) - scattering(moved)).norm() < pixels / 3


def test_an_image_has_its_features_whoever_is_beside_it():
    x = images(300, 3, 9, 12)
    torch.testing.assert_close(scattering(x)[[0, 299]], scattering(x[[0, 299]]))


def test_large_images_are_shrunk_and_grey_ones_in_three_channels_are_the_same():
    x = images(2, 1, 28, 30)
    torch.testing.assert_close(scattering(x.repeat_interleave(2, 2).repeat_interleave(2, 3)), scattering(x))
    three = scattering(x.expand(-1, 3, -1, -1)).view(2, 81, -1)
    one = scattering(x).view(2, 81, -1)
    ratio = three[:, 1:] / three[:, :1].norm(dim=2, keepdim=True)
    torch.testing.assert_close(ratio, math.sqrt(3) * one[:, 1:] / one[:, :1].norm(dim=2, keepdim=True))


def test_no_images_are_refused():
    with pytest.raises(FedkinError, match="'scattering' need images"):
        scattering(torch.zeros(2, 1, 7, 28))
    with pytest.raises(FedkinError, match=r"shape \(784,\)"):
        scattering(torch.zeros(2, 784))
