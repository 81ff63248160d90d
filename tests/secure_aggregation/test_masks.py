"""Numbers behind masks: sums come out exactly, and nothing else does."""

import math
from hashlib import sha256
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.secure_aggregation.masks import (
    KINDS,
    OWN,
    PAIRS,
    PRIME,
    SEALED,
    Integers,
    channel_key,
    combine,
    context_of,
    decode,
    encode,
    limit,
    mask,
    opened,
    openers_of,
    public_key,
    public_of,
    sealed_shares,
    split,
    sum_keys,
    threshold,
)

CONTEXT = context_of(b"once", {0: b"key"})


def private(client: int) -> bytes:
    return sha256(str(client).encode()).digest()


def keys_of(ids: list[int]) -> dict[int, bytes]:
    return {client: public_key(private(client)) for client in ids}


def wrapped_sum(numbers: list[Integers]) -> Integers:
    return np.sum(numbers, axis=0, dtype=np.uint64)


@given(
    st.lists(st.integers(0, 200), min_size=2, max_size=7, unique=True),
    st.integers(0, 9),
    st.randoms(use_true_random=False),
)
def test_masks_cancel_whatever_the_clients_and_their_order(ids, length, random):
    keys = keys_of(ids)
    masks = [mask(client, private(client), keys, CONTEXT, length) for client in ids]
    random.shuffle(masks)
    assert wrapped_sum(masks).tolist() == [0] * length


@settings(max_examples=40)
@given(st.data(), st.integers(3, 6), st.integers(1, 5))
def test_sums_of_hidden_numbers_are_those_of_the_numbers(data, clients, length):
    most = limit(clients)
    numbers = st.lists(st.floats(-most, most), min_size=length, max_size=length)
    values = [torch.tensor(data.draw(numbers), dtype=torch.float64) for _ in range(clients)]
    keys = keys_of(list(range(clients)))
    hidden = [
        encode(value, clients) + mask(client, private(client), keys, CONTEXT, length)
        for client, value in enumerate(values)
    ]
    exact = [math.fsum(column) for column in torch.stack(values).T.tolist()]  # a sum of floats rounds
    expected = torch.tensor(exact, dtype=torch.float64)
    torch.testing.assert_close(decode(wrapped_sum(hidden)), expected, rtol=1e-14, atol=clients * 2.0**-33)


def test_a_hidden_number_is_any_number():
    """Zeros and a ramp look alike behind a mask: as uniform as 64 bits can be, and unlike what they hide."""
    keys, length = keys_of([0, 1, 2]), 20_000
    for values in (torch.zeros(length), torch.linspace(-1e8, 1e8, length)):
        hidden = encode(values, 3) + mask(1, private(1), keys, CONTEXT, length)
        ones = np.unpackbits(hidden.view(np.uint8)).reshape(length, 64).mean(0)
        assert abs(ones - 0.5).max() < 5 * 0.5 / length**0.5
        if values.any():
            assert abs(np.corrcoef(hidden.astype(float), values.numpy())[0, 1]) < 5 / length**0.5


@pytest.mark.parametrize(
    ("tag", "others"), [(b"once", [1, 2, 3]), (b"again", [1, 2])], ids=["other clients", "another tag"]
)
def test_masks_of_different_sums_have_nothing_in_common(tag, others):
    first, second = keys_of([0, 1, 2]), keys_of([0, *others])
    one = mask(0, private(0), first, context_of(b"once", first), 5000)
    other = mask(0, private(0), second, context_of(tag, second), 5000)
    assert (one == other).sum() == 0
    assert abs(np.corrcoef(one.astype(float), other.astype(float))[0, 1]) < 5 / 5000**0.5
    again = mask(0, private(0), first, context_of(b"once", first), 5000)
    assert np.array_equal(one, again)


@pytest.mark.parametrize("value", [torch.inf, torch.nan, 1.001 * limit(5), -1.001 * limit(5)])
def test_numbers_that_a_sum_might_not_hold_are_refused(value):
    with pytest.raises(ValueError, match=r"^a number is beyond 2\.15e\+08, the maximum for a secure sum of 5 clients$"):
        encode(torch.tensor([0.0, value]), 5)


def test_contexts_tell_sums_and_keys_apart():
    keys = keys_of([1, 2, 12])
    swapped = {1: keys[2], 2: keys[1], 12: keys[12]}
    contexts = [context_of(b"a", keys), context_of(b"b", keys), context_of(b"a", keys_of([1, 2])),
                context_of(b"a", swapped)]  # fmt: skip
    assert len({*contexts}) == 4
    assert context_of(b"a", dict(reversed(keys.items()))) == contexts[0]


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


IDS = [2, 3, 5, 7, 11]


ONE_SUM = b"one sum"


def secret(client: int) -> bytes:
    return sha256(str(client).encode()).digest()


KEYS = {client: public_key(channel_key(secret(client))) for client in IDS}


def opened_by(holder: int, dealer: int, kind: int, context: bytes = ONE_SUM, **changes: object) -> int | None:
    publics, shares = sealed_shares(secret(dealer), dealer, KEYS, ONE_SUM)
    opener = openers_of(channel_key(secret(holder)), KEYS[dealer], dealer, holder, context)[kind]
    sealed = changes.get("sealed", shares[IDS.index(holder)][kind])
    return opened(opener, sealed, changes.get("publics", publics), changes.get("opened_as", kind))


@pytest.mark.parametrize("dealer", IDS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_holders_open_recovers_the_key(dealer, kind):
    shares = {at: opened_by(holder, dealer, kind) for at, holder in enumerate(IDS, 1)}
    key = sum_keys(secret(dealer), ONE_SUM)[kind]
    for left_out in shares:
        enough = {at: share for at, share in shares.items() if at != left_out}
        assert len(enough) == threshold(5)
        assert combine(enough).to_bytes(32, "little") == key
    number = int.from_bytes(key, "little")
    public = sealed_shares(secret(dealer), dealer, KEYS, ONE_SUM)[0][kind]
    assert public_of(number, kind) == public
    assert kind == OWN or public_key(key) == public
    assert all(public_of(number ^ (8 << bit), kind) != public for bit in range(250))
    assert kind == PAIRS or public_of(number ^ 1, kind) != public  # a mask that grows from it is another
    few = dict(list(shares.items())[:3])
    assert combine(few).to_bytes(32, "little") != key


def test_no_key_serves_two_sums_kinds_or_directions():
    """Each encrypts with the same nonce, and a key that is revealed must open nothing else."""
    assert sealed_shares(secret(3), 3, KEYS, ONE_SUM) == sealed_shares(secret(3), 3, KEYS, ONE_SUM)
    sums, own = (ONE_SUM, b"another"), channel_key(secret(3))
    assert len({own, secret(3), *(key for context in sums for key in sum_keys(secret(3), context))}) == 6
    ways = product(((3, 7), (7, 3)), sums)
    assert len({key for way, context in ways for key in openers_of(own, KEYS[7], *way, context)}) == 8


@given(st.integers(0, SEALED - 1), st.integers(1, 255), st.sampled_from(KINDS))
def test_a_sealed_share_with_any_byte_changed_does_not_open(at, change, kind):
    content = bytearray(sealed_shares(secret(3), 3, KEYS, ONE_SUM)[1][3][kind])
    content[at] ^= change
    assert opened_by(7, 3, kind, sealed=bytes(content)) is None


def test_a_share_opens_for_its_holder_kind_keys_and_sum_alone():
    publics, shares = sealed_shares(secret(3), 3, KEYS, ONE_SUM)
    others = sealed_shares(secret(5), 5, KEYS, ONE_SUM)[0]
    assert opened_by(7, 3, OWN) is not None
    assert opened_by(11, 3, OWN, sealed=shares[3][OWN]) is None
    assert opened_by(7, 3, PAIRS, sealed=shares[3][OWN], opened_as=OWN) is None
    assert opened_by(7, 3, OWN, opened_as=PAIRS) is None
    assert opened_by(7, 3, OWN, context=b"another") is None
    assert opened_by(7, 3, OWN, publics=others) is None
    assert opened_by(7, 3, OWN, publics=(others[PAIRS], publics[OWN])) is None
