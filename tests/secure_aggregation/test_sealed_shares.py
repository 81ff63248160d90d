"""Shares that only their holder opens, bound to the sum and to the dealer's keys."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.secure_aggregation.masks import (
    KINDS,
    OPENER,
    OWN,
    PAIRS,
    SEALED,
    channel_key,
    combine,
    opened,
    openers_of,
    public_key,
    public_of,
    share_keys,
    sum_keys,
    threshold,
)

IDS = [2, 3, 5, 7, 11]
CONTEXT = b"one sum"


def secret(client: int) -> bytes:
    return sha256(str(client).encode()).digest()


KEYS = {client: public_key(channel_key(secret(client))) for client in IDS}


def opened_by(holder: int, dealer: int, kind: int, context: bytes = CONTEXT, **changes: object) -> int | None:
    distributed = share_keys(secret(dealer), dealer, KEYS, CONTEXT)
    opener = openers_of(channel_key(secret(holder)), KEYS[dealer], dealer, holder, context)[kind]
    sealed = changes.get("sealed", distributed.shares[IDS.index(holder)][kind])
    return opened(opener, sealed, changes.get("publics", distributed.publics), changes.get("opened_as", kind))


@pytest.mark.parametrize("dealer", IDS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_holders_open_recovers_the_key(dealer, kind):
    shares = {at: opened_by(holder, dealer, kind) for at, holder in enumerate(IDS, 1)}
    key = sum_keys(secret(dealer), CONTEXT)[kind]
    for left_out in shares:
        enough = {at: share for at, share in shares.items() if at != left_out}
        assert len(enough) == threshold(5)
        assert combine(enough).to_bytes(32, "little") == key
    number = int.from_bytes(key, "little")
    public = share_keys(secret(dealer), dealer, KEYS, CONTEXT).publics[kind]
    assert public_of(number, kind) == public
    assert kind == OWN or public_key(key) == public
    assert all(public_of(number ^ (8 << bit), kind) != public for bit in range(250))
    assert kind == PAIRS or public_of(number ^ 1, kind) != public  # a mask that grows from it is another
    few = dict(list(shares.items())[:3])
    assert combine(few).to_bytes(32, "little") != key


@given(st.integers(0, SEALED - 1), st.integers(1, 255), st.sampled_from(KINDS))
def test_a_sealed_share_with_any_byte_changed_does_not_open(at, change, kind):
    content = bytearray(share_keys(secret(3), 3, KEYS, CONTEXT).shares[3][kind])
    content[at] ^= change
    assert opened_by(7, 3, kind, sealed=bytes(content)) is None


@given(st.binary(min_size=OPENER, max_size=OPENER))
def test_nobody_guesses_what_opens_a_share(opener):
    distributed = share_keys(secret(3), 3, KEYS, CONTEXT)
    assert opened(opener, distributed.shares[3][OWN], distributed.publics, OWN) is None


def test_a_share_opens_for_its_holder_kind_keys_and_sum_alone():
    distributed, other = share_keys(secret(3), 3, KEYS, CONTEXT), share_keys(secret(5), 5, KEYS, CONTEXT)
    assert opened_by(7, 3, OWN) is not None
    assert opened_by(11, 3, OWN, sealed=distributed.shares[3][OWN]) is None
    assert opened_by(7, 3, PAIRS, sealed=distributed.shares[3][OWN], opened_as=OWN) is None
    assert opened_by(7, 3, OWN, opened_as=PAIRS) is None
    assert opened_by(7, 3, OWN, context=b"another") is None
    assert opened_by(7, 3, OWN, publics=other.publics) is None
    assert opened_by(7, 3, OWN, publics=(other.publics[PAIRS], distributed.publics[OWN])) is None


def test_every_sum_has_keys_of_its_own_and_dealing_again_changes_nothing():
    assert share_keys(secret(3), 3, KEYS, CONTEXT) == share_keys(secret(3), 3, KEYS, CONTEXT)
    one, other = (sum_keys(secret(3), context) for context in (CONTEXT, b"another"))
    assert len({*one, *other, channel_key(secret(3)), secret(3)}) == 6
    first, second = (share_keys(secret(3), 3, KEYS, context).shares for context in (CONTEXT, b"another"))
    assert not {sealed for both in first for sealed in both} & {sealed for both in second for sealed in both}
