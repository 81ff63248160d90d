"""Secrets in shares: enough of them recover it, fewer say nothing, and a wrong one is no other secret's."""

from hypothesis import given
from hypothesis import strategies as st

from fedkin.secure_aggregation.masks import PRIME, combine, split, threshold

NUMBERS = st.integers(0, PRIME - 1)


@st.composite
def shared_numbers(draw: st.DrawFn) -> tuple[list[int], dict[int, int]]:
    """A polynomial of a secret for up to twelve holders, and their shares by place."""
    holders = draw(st.integers(3, 12))
    needed = threshold(holders)
    polynomial = draw(st.lists(NUMBERS, min_size=needed, max_size=needed))
    return polynomial, dict(enumerate(split(polynomial, holders), 1))


@given(st.data(), shared_numbers())
def test_any_so_many_shares_recover_the_secret(data, secret):
    polynomial, shares = secret
    places = data.draw(st.permutations(sorted(shares)))
    for count in (len(polynomial), len(shares)):
        assert combine({at: shares[at] for at in places[:count]}) == polynomial[0]


@given(st.data(), shared_numbers(), NUMBERS)
def test_one_share_fewer_is_a_share_of_any_secret(data, secret, other):
    """For each secret there is one polynomial through the shares that are known, so that they say nothing of it."""
    polynomial, shares = secret
    known = data.draw(st.permutations(sorted(shares)))[: len(polynomial) - 1]
    missing = next(at for at in shares if at not in known)
    through = {0: other} | {at: shares[at] for at in known}
    completed = {at: shares[at] for at in known} | {missing: _value_of(through, missing)}
    assert combine(completed) == other
    assert completed[missing] < PRIME


@given(st.data(), shared_numbers(), st.integers(1, PRIME - 1))
def test_with_a_wrong_share_it_is_another_secret(data, secret, off):
    polynomial, shares = secret
    used = dict(list(shares.items())[: len(polynomial)])
    wrong = data.draw(st.sampled_from(sorted(used)))
    assert combine(used | {wrong: (used[wrong] + off) % PRIME}) != polynomial[0]


def test_no_holders_are_enough_for_both_keys_of_a_client():
    """Each honest holder gives shares of one of two keys, those in league with the server of both."""
    for holders in range(3, 500):
        needed, in_league = threshold(holders), holders // 3
        assert in_league < needed <= holders
        assert 2 * needed > holders + in_league


def _value_of(through: dict[int, int], at: int) -> int:
    """The value of the polynomial through these points, by Lagrange's formula as textbooks have it."""
    total = 0
    for place, value in through.items():
        above = below = 1
        for other in through.keys() - {place}:
            above, below = above * (at - other), below * (place - other)
        total += value * above * pow(below, -1, PRIME)
    return total % PRIME
