"""Mechanisms: Gaussian noise and flipped bits."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta, chisquare, kstest, norm

from fedkin.core import FedkinError
from fedkin.core.seeds import Noise, Secret, derive_generator
from fedkin.privacy.gaussian import add_noise, discrete_gaussian, gaussian_delta, gaussian_epsilon, gaussian_mu
from fedkin.privacy.randomised_response import binary, flipped, memorised, packed, unpacked


@pytest.mark.parametrize(("epsilon", "mu"), [(0.0, 1.0), (1.0, 0.3), (1.0, 2.0), (8.0, 1.7), (20.0, 5.0)])
def test_delta_is_the_excess_of_one_density_over_the_other(epsilon: float, mu: float):
    def excess(x: float) -> float:
        return max(0.0, norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x))

    edge = epsilon / mu + mu / 2
    expected = quad(excess, edge, edge + 12, epsabs=1e-14)[0]
    assert gaussian_delta(epsilon, mu) == pytest.approx(expected, rel=1e-6, abs=1e-13)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 10.0, 300.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.3])
def test_mu_is_the_greatest_that_is_allowed_and_epsilon_its_inverse(epsilon: float, delta: float):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta * (1 + 1e-9)
    assert gaussian_delta(epsilon, 1.001 * mu) > delta
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-5), (math.inf, 1e-5), (1.0, 0.0), (1.0, 1.0)])
def test_budgets_that_make_no_sense_are_refused(epsilon: float, delta: float):
    with pytest.raises(FedkinError):
        gaussian_mu(epsilon, delta)


@pytest.mark.parametrize("source", [Secret(bytes(32)), torch.Generator().manual_seed(0)])
@pytest.mark.parametrize("scale", [1, 3, 2**23 + 1, 2**25])
def test_discrete_noise_has_the_distribution_of_its_name(scale: int, source: Noise):
    drawn = discrete_gaussian(40_000, scale, source)
    if scale > 3:
        assert kstest(drawn / scale, "norm").pvalue > 1e-3
        assert len(set((drawn % 2).tolist())) == 2
        return
    values = np.arange(-3 * scale, 3 * scale + 1)
    found = (drawn[:, None] == values).sum(0)
    chances = np.exp(-(values**2) / (2 * scale**2))
    assert found.sum() > 39_000
    assert chisquare(found, chances / chances.sum() * found.sum()).pvalue > 1e-3


@pytest.mark.parametrize("deviation", [1e-300, 0.7, 2.0, 1e30])
@pytest.mark.parametrize("sensitivity", [1e-3, 1.0])
def test_noise_has_the_deviation_that_was_asked_for_and_a_little_more_for_rounding(
    deviation: float, sensitivity: float
):
    rng = torch.Generator().manual_seed(0)
    values = [torch.full((200, 100), 3 * deviation, dtype=torch.float64), torch.zeros(5, dtype=torch.int64)]
    found, again = (add_noise(values, sensitivity * deviation, deviation, rng)[0] / deviation for _ in range(2))
    assert found.dtype == torch.float64
    assert found.numpy().mean() == pytest.approx(3, abs=0.05)
    # Rounding 20,005 numbers moves them by up to 141 grids.
    assert found.numpy().std() == pytest.approx(1 + 141 * 2**-23 / sensitivity, rel=0.02)
    assert abs(np.corrcoef(found.flatten(), again.flatten())[0, 1]) < 0.03


def test_noise_hides_values_beyond_what_a_grid_can_count_too():
    (found,) = add_noise([torch.tensor([1e300, -math.inf, 2.0**80])], 1.0, 1.0, Secret())
    assert found.isfinite().all()
    assert found.abs().tolist() == pytest.approx([2.0**39] * 3)
    with pytest.raises(FedkinError, match="too much"):
        add_noise([torch.zeros(3)], 1.0, 1e8, Secret())


def tell(guesses: np.ndarray, others: np.ndarray, epsilon: float) -> float:
    """Return a lower bound (Clopper and Pearson 1934) of delta, at a confidence of 1 - 2e-6, from a test's guesses."""
    hits, errors, n = guesses.sum(), others.sum(), len(guesses)
    least = beta.ppf(1e-6, hits, n - hits + 1) if hits else 0.0
    most = beta.ppf(1 - 1e-6, errors + 1, n - errors) if errors < n else 1.0
    return float(least - math.exp(epsilon) * most)


@pytest.mark.parametrize("source", [Secret(bytes(32)), torch.Generator().manual_seed(0)])
@pytest.mark.parametrize("value", [1.0, 0.3, 1e5])
def test_no_last_bits_tell_whether_a_value_was_0(value: float, source: Noise):
    epsilon, cells = 1.0, 4000
    deviation = value / gaussian_mu(epsilon, 1e-5)
    empty, other = (
        add_noise([torch.full((cells,), each, dtype=torch.float64)], value, deviation, source)[0].numpy()
        for each in (0.0, value)
    )
    for bits in range(60):
        step = deviation * 2.0**-bits
        for grid in (step, 2.0 ** math.floor(math.log2(step))):  # what is not a multiple was not added to anything
            found = [np.remainder(one, grid) != 0 for one in (empty, other)]
            assert tell(*found, epsilon) <= 1e-5
            assert tell(*found[::-1], epsilon) <= 1e-5
            assert tell(*(~one for one in found), epsilon) <= 1e-5


SEEDS = st.integers(0, 10_000)


def some_bits(seed: int, *shape: int) -> torch.Tensor:
    return torch.randint(2, shape, generator=derive_generator(seed), dtype=torch.uint8)


def test_a_segment_is_normalised_by_its_own_extremes():
    segments = torch.tensor([[0.0, 1.0, 2.0, 4.0], [8.0, 9.0, 11.0, 12.0]])
    assert binary(segments).tolist() == [[0, 0, 0, 1], [0, 0, 1, 1]]


def test_flips_come_as_often_as_asked_and_not_from_the_global_generator():
    bits = some_bits(0, 100, 1000)
    state = torch.get_rng_state()
    share = float(flipped(bits, 0.1, derive_generator(1)).ne(bits).float().mean())
    assert abs(share - 0.1) < 0.004
    assert torch.get_rng_state().equal(state)
    assert flipped(bits, 0.0, derive_generator(1)).equal(bits)
    assert flipped(bits, 0.1, derive_generator(1)).equal(flipped(bits, 0.1, derive_generator(1)))


@given(SEEDS, st.integers(0, 70))
def test_packing_has_an_inverse_and_takes_an_eighth(seed: int, n: int):
    bits = some_bits(seed, n)
    assert packed(bits).shape == (-(-n // 8),)
    assert unpacked(packed(bits), n).equal(bits)


@given(SEEDS, st.floats(0, 0.5))
def test_a_memorised_answer_depends_on_the_true_bit_alone(seed: int, probability: float):
    before, after = some_bits(seed, 50), some_bits(seed + 1, 50)
    first, memory = memorised(before, probability, None, derive_generator(seed, "first"))
    second, kept = memorised(after, probability, memory, derive_generator(seed, "second"))
    again, _ = memorised(before, probability, kept, derive_generator(seed, "third"))
    assert kept.equal(memory)
    assert again.equal(first)
    assert second[before == after].equal(first[before == after])


def test_both_answers_are_drawn_independently_and_with_the_probability():
    _, memory = memorised(some_bits(0, 100_000), 0.2, None, derive_generator(1))
    true_answer = memory == torch.tensor([[0], [1]])
    assert (true_answer.float().mean(1) - 0.8).abs().max() < 0.01
    assert abs(float(true_answer.all(0).float().mean()) - 0.64) < 0.01
