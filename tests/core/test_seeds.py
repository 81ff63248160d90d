import numpy as np
import pytest
import torch
from scipy.stats import chisquare, kstest

from fedkin.core.seeds import Secret, derive_seed, integers_below, noise_for, uniform


@pytest.mark.parametrize(
    ("path", "seed"),
    [
        ((0,), 6375474604893067239),
        ((7, "client", 3), 8356605545132523358),
        ((2**40, ""), 2483749886970300521),
        ((0, "ab"), 3511926530596592298),
        ((0, "a", "b"), 1142875481379748505),
        ((0, 1), 8514611595815388268),
        ((0, "1"), 8442302946279886881),
    ],
)
def test_seeds_are_the_same_in_every_process_and_version(path, seed):
    assert derive_seed(*path) == seed


def test_other_paths_give_other_seeds():
    seeds = {
        derive_seed(seed, "client", client, step) for seed in range(5) for client in range(10) for step in range(10)
    }
    assert len(seeds) == 500
    assert derive_seed(0, "client", 1) != derive_seed(0, "server", 1)


KEY = bytes(range(32))


def test_a_key_gives_the_same_stream_and_another_key_another():
    first, again, other = Secret(KEY), Secret(KEY), Secret(KEY[::-1])
    drawn = first.uniform(100)
    assert drawn.equal(again.uniform(100))
    assert not drawn.equal(other.uniform(100))
    assert not drawn.equal(first.uniform(100))  # which goes on
    assert not Secret().uniform(3).equal(Secret().uniform(3))


@pytest.mark.parametrize("source", [Secret(KEY), torch.Generator().manual_seed(0)])
def test_numbers_are_distributed_as_they_are_called(source):
    flat = uniform((100, 200), source)
    assert flat.shape == (100, 200)
    assert flat.dtype == torch.float64
    assert float(flat.min()) >= 0
    assert float(flat.max()) < 1
    assert kstest(flat.flatten().numpy(), "uniform").pvalue > 1e-3
    assert uniform((2, 0), source).shape == (2, 0)
    assert uniform((3,), source, torch.float32).dtype == torch.float32
    bounds = np.repeat([1, 3, 3 * 2**61], 3000)  # a quarter of all words is above the last, and drawn again
    whole = integers_below(bounds, source).reshape(3, -1)
    assert not whole[0].any()
    assert chisquare(np.bincount(whole[1], minlength=3)).pvalue > 1e-3
    assert kstest(whole[2] / (3 * 2.0**61), "uniform").pvalue > 1e-3


def test_the_same_values_get_the_same_noise_and_others_get_another():
    values, others = [torch.arange(3.0), torch.tensor(1)], [torch.arange(3.0), torch.tensor(2)]
    noise, name = noise_for(Secret(KEY), values)
    again, same_name = noise_for(Secret(KEY), values)
    other, other_name = noise_for(Secret(KEY), others)
    assert name == same_name != other_name
    assert uniform((4,), noise).equal(uniform((4,), again))
    assert not uniform((4,), Secret(KEY).stream_for(b"a")).equal(uniform((4,), Secret(KEY).stream_for(b"b")))
    assert not uniform((4,), noise).equal(uniform((4,), other))
    rng = torch.Generator().manual_seed(1)
    assert noise_for(rng, values)[0] is rng
    assert noise_for(rng, values)[1] != noise_for(torch.Generator().manual_seed(2), values)[1]
