"""Histograms of oriented gradients: scikit-image's, and what they must not depend on."""

import numpy as np
import pytest
import torch

from fedkin.core import FedkinError
from fedkin.features.hog import cell_side, hog


def images(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", [(1, 28, 28), (1, 8, 8), (3, 32, 32), (3, 11, 18), (1, 96, 70)])
def test_they_are_those_of_scikit_image(shape: tuple[int, ...]):
    feature = pytest.importorskip("skimage.feature")
    x, side = images(4, *shape), cell_side(shape)
    found = hog(x)
    for image, row in zip(x.double().numpy(), found, strict=True):
        expected = feature.hog(
            image.transpose(1, 2, 0), orientations=8, pixels_per_cell=(side, side), cells_per_block=(2, 2),
            block_norm="L2-Hys", channel_axis=-1,
        )  # fmt: skip
        np.testing.assert_allclose(row, expected, atol=1e-3)


def test_directions_that_lie_between_two_bins_are_put_where_scikit_image_puts_them():
    feature = pytest.importorskip("skimage.feature")
    levels = (4 * images(6, 1, 12, 12)).floor()
    for image, row in zip(levels.double().numpy(), hog(levels), strict=True):
        expected = feature.hog(image[0], 8, (4, 4), (2, 2), "L2-Hys")
        np.testing.assert_allclose(row, expected, atol=1e-3)


def test_contrast_and_brightness_do_not_matter():
    x = images(3, 1, 28, 28)
    torch.testing.assert_close(hog(0.4 * x + 0.3), hog(x), atol=1e-4, rtol=0)
    assert hog(torch.full((1, 1, 28, 28), 0.7)).abs().max() == 0.0


def test_an_image_has_the_same_features_whoever_else_is_there():
    x = images(5, 3, 16, 16)
    torch.testing.assert_close(hog(x)[3:4], hog(x[3:4]))


def test_large_images_have_larger_cells_and_no_more_features():
    assert [cell_side((1, side, side)) for side in (8, 28, 32, 64, 224)] == [4, 4, 4, 8, 28]
    assert hog(images(1, 3, 224, 224)).shape == hog(images(1, 3, 32, 32)).shape == (1, 7 * 7 * 32)


@pytest.mark.parametrize("shape", [(2, 1, 7, 28), (2, 40)])
def test_other_samples_are_refused(shape: tuple[int, ...]):
    with pytest.raises(FedkinError, match="8 x 8"):
        hog(torch.zeros(shape))
