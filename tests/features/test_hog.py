"""Histograms of oriented gradients: scikit-image's, and what they must not depend on."""

import pytest
import torch

from fedkin.core import FedkinError
from fedkin.features.hog import cell_side, hog


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


def test_contrast_and_brightness_do_not_matter():
    x = images(3, 1, 28, 28)
    torch.testing.assert_close(hog(0.4 * x + 0.3), hog(x), atol=1e-4, rtol=0)
    assert hog(torch.full((1, 1, 28, 28), 0.7)).abs().max() == 0.0


def test_an_image_has_the_same_features_whoever_else_is_there():
    x = images(5, 3, 16, 16)
    assert torch.equal(hog(x)[3:4], hog(x[3:4]))
    assert hog(x[:0]).shape == (0, hog(x).shape[1])


def test_large_images_have_larger_cells_and_no_more_features():
    assert [cell_side((1, side, side)) for side in (8, 28, 32, 64, 224)] == [4, 4, 4, 8, 28]
    assert hog(images(1, 3, 224, 224)).shape == hog(images(1, 3, 32, 32)).shape == (1, 7 * 7 * 32)


@pytest.mark.parametrize("shape", [(2, 1, 7, 28), (2, 40)])
def test_other_samples_are_refused(shape: tuple[int, ...]):
    with pytest.raises(FedkinError, match="8 x 8"):
        hog(torch.zeros(shape))


def test_without_scikit_image_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("fedkin.core.errors.find_spec", lambda name: None)
    sentence = r"^Feature extraction by 'hog' needs skimage, not installed here: pip install 'fedkin\[hog\]'\.$"
    with pytest.raises(FedkinError, match=sentence):
        hog(images(1, 1, 8, 8))
