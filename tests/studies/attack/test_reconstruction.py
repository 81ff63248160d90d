import pytest
import torch
from digits import digits, learnt

from fedkin.core.seeds import derive_generator
from fedkin.studies.attack.attack import (
    LEVELS,
    reconstructed,
)


def test_errors_grow_with_the_noise_as_in_table_2():
    known = learnt()
    x = digits()[0][:300]
    found = [reconstructed(known, x, level, derive_generator(2, str(level))) for level in LEVELS]
    errors = [float(each.errors.mean()) for each in found]
    assert errors == sorted(errors)
    assert errors[1] > 2 * errors[0]
    assert errors[0] == pytest.approx(float(known.encoder.errors(known.vector, x).mean()), rel=1e-4)


def test_recognition_falls_with_the_noise_from_certainty_to_chance():
    known = learnt()
    x = digits()[0][:300]
    shares = [reconstructed(known, x, level, derive_generator(2)).recognised for level in (None, 0.0, 0.2, 0.5)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.6
    assert shares[-1] < 0.03


def test_pictures_and_errors_belong_together_and_repeat():
    known = learnt()
    x = digits()[0][:7]
    one, other = (reconstructed(known, x, 0.1, derive_generator(3)) for _ in range(2))
    assert one.pictures.shape == x.shape
    assert one.pictures.equal(other.pictures)
    torch.testing.assert_close(one.errors, (one.pictures - x).square().flatten(1).mean(1))
