import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core import FedkinError
from fedkin.privacy.accounting import bit_epsilon, delta_of, epsilon_of, flip_probability, statement

FLIPS = st.floats(0.001, 0.499)
COUNTS = st.integers(1, 300)
DELTAS = st.floats(1e-9, 0.5)


def enumerated_delta(epsilon: float, probability: float, bits: int) -> float:
    """The same by its definition: over every answer, what its chance exceeds exp(epsilon) times the other's by."""
    total = 0.0
    for answer in itertools.product((0, 1), repeat=bits):
        ones = sum(answer)
        chance = (1 - probability) ** ones * probability ** (bits - ones)
        other = probability**ones * (1 - probability) ** (bits - ones)
        total += max(0.0, chance - math.exp(epsilon) * other)
    return total


@given(st.floats(0, 12), FLIPS, st.integers(1, 8))
def test_delta_is_what_enumeration_gives(epsilon: float, probability: float, bits: int):
    assert delta_of(epsilon, probability, bits) == pytest.approx(
        enumerated_delta(epsilon, probability, bits), abs=1e-12
    )


@given(st.floats(0, 50), FLIPS, FLIPS, COUNTS)
def test_delta_falls_with_epsilon_and_flips_and_grows_with_bits(epsilon: float, one: float, other: float, bits: int):
    less, more = sorted((one, other))
    slack = 1e-12
    assert delta_of(epsilon + 1, less, bits) <= delta_of(epsilon, less, bits) + slack
    assert delta_of(epsilon, more, bits) <= delta_of(epsilon, less, bits) + slack
    assert delta_of(epsilon, less, bits) <= delta_of(epsilon, less, bits + 1) + slack


@given(DELTAS, FLIPS, COUNTS)
def test_epsilon_of_inverts_delta_of(delta: float, probability: float, bits: int):
    epsilon = epsilon_of(delta, probability, bits)
    assert 0 <= epsilon <= bits * bit_epsilon(probability)
    assert delta_of(epsilon, probability, bits) <= delta
    if epsilon > 1e-6:
        assert delta_of(epsilon * (1 - 1e-6), probability, bits) > delta * (1 - 1e-9)


@given(st.floats(0.01, 200), DELTAS, COUNTS)
def test_a_budget_with_delta_is_met_with_the_least_flips(epsilon: float, delta: float, bits: int):
    probability = flip_probability(epsilon, bits, delta)
    assert probability <= flip_probability(epsilon, bits)
    assert delta_of(epsilon, probability, bits) <= delta
    if probability > 1e-6:
        assert delta_of(epsilon, probability * (1 - 1e-6), bits) > delta * (1 - 1e-9)


def test_the_ends_of_the_range():
    assert epsilon_of(0.0, 0.1, 20) == pytest.approx(20 * math.log(9))
    assert epsilon_of(1e-5, 0.5, 20) == 0.0
    assert epsilon_of(1e-5, 0.0, 20) == math.inf
    assert epsilon_of(1e-5, 0.1, 0) == 0.0
    assert delta_of(0.0, 0.5, 20) == 0.0
    assert delta_of(3.0, 0.0, 20) == 1.0
    assert delta_of(math.inf, 0.0, 20) == 0.0
    assert delta_of(3.0, 0.0, 0) == 0.0
    assert flip_probability(math.inf, 20) == 0.0
    assert flip_probability(0.0, 20) == 0.5
    assert flip_probability(0.0, 20, 1e-3) < 0.5


def test_long_messages_are_accounted_without_overflow():
    epsilon = epsilon_of(1e-5, 0.1, 21_504)
    assert 0.8 * 21_504 * math.log(9) < epsilon < 21_504 * math.log(9)
    assert delta_of(epsilon, 0.1, 21_504) == pytest.approx(1e-5, rel=1e-3)


def test_a_statement_names_every_level():
    made = statement(0.1, 200, 20)
    nine = math.log(9)
    assert made.epsilon_bit == pytest.approx(nine)
    assert made.epsilon_sample == pytest.approx(20 * nine)
    assert made.epsilon_replaced == pytest.approx(40 * nine)
    assert made.epsilon_client == pytest.approx(200 * nine)
    assert made.epsilon_client_delta == pytest.approx(epsilon_of(1e-5, 0.1, 200))
    assert made.tree()["delta"] == 1e-5


def test_where_segments_depend_on_all_samples_one_sample_counts_as_much_as_the_client():
    made = statement(0.1, 200, 20, separate=False)
    assert made.epsilon_sample == made.epsilon_replaced == made.epsilon_client


def test_without_flips_a_statement_says_that_nothing_is_guaranteed():
    tree = statement(0.0, 200, 20).tree()
    assert tree["flip"] == 0.0
    assert [tree[name] for name in tree if name.startswith("epsilon")] == [None] * 5


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: bit_epsilon(0.6), "Flip probability 0.6"),
        (lambda: delta_of(-1.0, 0.1, 5), "Epsilon -1.0"),
        (lambda: epsilon_of(1.0, 0.1, 5), "Delta 1.0"),
        (lambda: flip_probability(float("nan"), 5), "Epsilon nan"),
        (lambda: flip_probability(1.0, 0), "at least 1"),
        (lambda: statement(0.1, 200, 30), "segments of 30 bits"),
    ],
)
def test_values_out_of_range_are_named(call, says):
    with pytest.raises(FedkinError, match=says):
        call()
