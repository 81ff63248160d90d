from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from fedkin.report.pictures import sprite


def decoded(uri: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,")))))


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3)])
def test_sprite_holds_the_mean_and_then_the_members(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    mean, members = rng.random(shape), rng.random((3, *shape))
    pixels = decoded(sprite(mean, members, side=64))
    assert pixels.shape == (5, 16, *shape[2:])
    np.testing.assert_allclose(pixels[:, 4:8] / 255, members[0], atol=0.5 / 255)
    np.testing.assert_allclose(pixels[:, :4] / 255, mean, atol=0.5 / 255)


def test_values_outside_the_range_are_clipped_and_nan_is_black() -> None:
    mean = np.array([[-1.0, 2.0], [np.nan, 0.0]])
    assert decoded(sprite(mean, np.zeros((0, 2, 2)), side=64)).tolist() == [[0, 255], [0, 0]]
