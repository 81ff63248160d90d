from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from fedkin.report.drawings import WIDTH, sample_map, sprite
from fedkin.report.figures import SampleMap

# Pictures.


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


# Maps.

PLACES = np.array([[0.0, 0.0], [4.0, 1.0], [2.0, 2.0]])
LABELS = np.array([[0, 0, 3]])


@pytest.mark.parametrize("places", [PLACES, np.zeros((3, 2)), PLACES * 1e6 - 5e5])
def test_every_dot_lies_inside_the_picture(places: np.ndarray) -> None:
    drawn = sample_map(SampleMap("Map", "", places, LABELS))
    height = float(re.search(r'viewBox="0 0 400 (\S+)"', drawn)[1])  # type: ignore[index]
    numbers = [(float(x), float(y)) for x, y in re.findall(r'cx="(\S+)" cy="(\S+)"', drawn)]
    assert len(numbers) == 3
    assert all(0 <= x <= WIDTH and 0 <= y <= height for x, y in numbers)


# Graphs.
