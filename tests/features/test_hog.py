"""Histograms of oriented gradients: scikit-image's, and what they must not depend on."""

import torch

from fedkin.features.hog import hog


def images(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def test_an_edge_is_in_the_bin_of_its_direction():
    x = torch.zeros(2, 1, 12, 12)
    x[0, :, 6:] = 1.0  # grows downwards
    x[1, :, :, 6:] = 1.0
    directions = hog(x).view(2, -1, 8).sum(1)
    assert (directions > 0).nonzero().tolist() == [[0, 4], [1, 0]]


def test_the_channel_with_the_strongest_gradient_counts():
    grey = images(3, 1, 16, 16)
    colour = torch.cat([0.1 * grey, grey, torch.zeros_like(grey)], dim=1)
    torch.testing.assert_close(hog(colour), hog(grey))


def test_an_image_has_the_same_features_whoever_else_is_there():
    x = images(5, 3, 16, 16)
    assert torch.equal(hog(x)[3:4], hog(x[3:4]))
    assert hog(x[:0]).shape == (0, hog(x).shape[1])
