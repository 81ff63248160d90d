"""Gaussian noise: the guarantee against its definition, and the noise against its name."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from fedkin.core import FedkinError
from fedkin.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu, noisy


@pytest.mark.parametrize(("epsilon", "mu"), [(0.0, 1.0), (1.0, 0.3), (1.0, 2.0), (8.0, 1.7), (20.0, 5.0)])
def test_delta_is_the_excess_of_one_density_over_the_other(epsilon: float, mu: float):
    def excess(x: float) -> float:
        return max(0.0, norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x))

    edge = epsilon / mu + mu / 2
    expected = quad(excess, edge, edge + 12, epsabs=1e-14)[0]
    assert gaussian_delta(epsilon, mu) == pytest.approx(expected, rel=1e-6, abs=1e-13)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 10.0, 300.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.3])
def test_mu_is_the_greatest_that_is_allowed(epsilon: float, delta: float):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta * (1 + 1e-9)
    assert gaussian_delta(epsilon, 1.001 * mu) > delta


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 10.0, 300.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.3])
def test_epsilon_inverts_mu(epsilon: float, delta: float):
    assert gaussian_epsilon(gaussian_mu(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-6, abs=1e-6)


def test_a_known_value():
    # Balle and Wang's analytic mechanism: for epsilon 1 and delta 1e-5 the deviation is 3.730632 at sensitivity 1.
    assert 1 / gaussian_mu(1.0, 1e-5) == pytest.approx(3.730632, abs=1e-5)


def test_no_privacy_is_lost_without_a_difference():
    assert gaussian_delta(0.0, 0.0) == 0.0
    assert gaussian_epsilon(0.0, 1e-5) == 0.0


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-5), (-1.0, 1e-5), (math.inf, 1e-5), (1.0, 0.0), (1.0, 1.0)])
def test_budgets_that_make_no_sense_are_refused(epsilon: float, delta: float):
    with pytest.raises(FedkinError, match="must be above 0"):
        gaussian_mu(epsilon, delta)


def test_noise_has_the_deviation_that_was_asked_for():
    rng = torch.Generator().manual_seed(0)
    found = noisy(torch.full((200, 100), 3.0), 2.0, rng)
    assert found.dtype == torch.float64
    np.testing.assert_allclose([found.mean(), found.std()], [3.0, 2.0], atol=0.05)
    again = noisy(torch.full((200, 100), 3.0), 2.0, rng)
    assert abs(np.corrcoef(found.flatten(), again.flatten())[0, 1]) < 0.03
