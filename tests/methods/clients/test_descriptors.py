"""Methods that cluster what clients say of their data."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pictures
import planted
from fedkin.core import Client
from fedkin.methods.clients.ladd import describe_style, low_frequencies, window_shape
from fedkin.methods.clients.pacfl import PACFLMethod

SHORT: dict[str, Any] = planted.FULL_BATCH | {"rounds": 2}


@pytest.mark.parametrize("angle", ["mean", "smallest"])
def test_turned_pictures_are_told_apart_without_labels(angle):
    method = PACFLMethod(
        **(pictures.TRAINING | {"rounds": 1}), bases="client", angle=angle, vectors=2, threshold="auto"
    )
    done = planted.run(method, pictures.clients())
    assert planted.same_partition(done.labels, pictures.TURNS)
    assert not PACFLMethod.assigns_by_labels(done.result)
    new = pictures.client(50, 2)
    new.y = None
    assert PACFLMethod.assign(done.result, new) == done.labels[pictures.TURNS.index(2)]


CLASSES, SIDE = 3, 16
TRAINING: dict[str, Any] = {"module": "perceptron", "rounds": 2, "local_steps": 1, "batch_size": 1000}


def client(number: int, style: int = 0, samples: int = 12) -> Client:
    """Noise under stripes of a frequency and an orientation that depend on the style alone."""
    rng = torch.Generator().manual_seed(number)
    along = torch.arange(SIDE) * (2 * torch.pi / SIDE) * (1 + style // 2)
    stripes = 3 * torch.cos(along).expand(SIDE, SIDE)
    x = torch.randn(samples, 1, SIDE, SIDE, generator=rng) + (stripes if style % 2 else stripes.T)
    return Client(number, x, torch.arange(samples) % CLASSES)


@settings(max_examples=60)
@given(st.integers(1, 20), st.integers(1, 20), st.floats(0.01, 0.5), st.integers(0, 99))
def test_low_frequencies_are_those_of_numpy(height, width, window, seed):
    x = torch.randn(2, 3, height, width, generator=torch.Generator().manual_seed(seed))
    found = low_frequencies(x, window)
    half = int(window * min(height, width))
    whole = np.abs(np.fft.fft2(x.double().numpy()))
    lines, columns = (range(-min(half, side // 2), min(half, (side - 1) // 2) + 1) for side in (height, width))
    expected = np.stack([np.stack([whole[..., line, column] for column in columns], -1) for line in lines], -2)
    assert found.shape == (2, *window_shape([3, height, width], window)) == expected.shape
    assert np.allclose(found.numpy(), expected, atol=1e-3)


def style(client: Client, seed: int = 0, **how: Any) -> torch.Tensor:
    client.rng = torch.Generator().manual_seed(seed)
    (reply,) = describe_style.run([client], [{"style": "class", "window": 0.2, "segments": CLASSES} | how])
    assert list(reply) == ["style"]
    assert reply["style"].dtype == torch.float32
    made: torch.Tensor = reply["style"]
    return made


def test_a_style_is_the_mean_amplitude_of_every_class():
    one = client(0)
    expected = [low_frequencies(one.x[one.y == label], 0.2).mean(0).flatten() for label in range(CLASSES)]
    assert torch.allclose(style(one), torch.cat(expected), rtol=1e-5)
    assert len(style(one)) == CLASSES * 7 * 7
