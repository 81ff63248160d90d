"""Numbers behind masks: sums come out exactly, and nothing else does."""

import math
from hashlib import sha256

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.secure_aggregation.masks import context_of, decode, encode, limit, mask, public_key

CONTEXT = context_of(b"once", {0: b"key"})


def private(client: int) -> bytes:
    return sha256(str(client).encode()).digest()


def keys_of(ids: list[int]) -> dict[int, bytes]:
    return {client: public_key(private(client)) for client in ids}


def wrapped_sum(numbers: list[torch.Tensor]) -> torch.Tensor:
    return torch.from_numpy(np.sum([one.numpy().view(np.uint64) for one in numbers], axis=0, dtype=np.uint64)).view(
        torch.int64
    )


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
        torch.from_numpy(
            encode(value, clients).numpy().view(np.uint64)
            + mask(client, private(client), keys, CONTEXT, length).numpy().view(np.uint64)
        )
        for client, value in enumerate(values)
    ]
    exact = [math.fsum(column) for column in torch.stack(values).T.tolist()]  # a sum of floats rounds
    expected = torch.tensor(exact, dtype=torch.float64)
    torch.testing.assert_close(decode(wrapped_sum(hidden)), expected, rtol=1e-14, atol=clients * 2.0**-33)


def test_one_too_few_and_nothing_cancels():
    keys = keys_of([0, 1, 2, 3])
    masks = [mask(client, private(client), keys, CONTEXT, 1000) for client in (0, 1, 3)]
    assert (wrapped_sum(masks) == 0).sum() == 0


def test_a_hidden_number_is_any_number():
    """Zeros and a ramp look alike behind a mask: as uniform as 64 bits can be, and unlike what they hide."""
    keys, length = keys_of([0, 1, 2]), 20_000
    for values in (torch.zeros(length), torch.linspace(-1e8, 1e8, length)):
        whole = encode(values, 3).numpy().view(np.uint64)
        hidden = whole + mask(1, private(1), keys, CONTEXT, length).numpy().view(np.uint64)
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
    assert abs(np.corrcoef(one.double(), other.double())[0, 1]) < 5 / 5000**0.5
    again = mask(0, private(0), first, context_of(b"once", first), 5000)
    assert torch.equal(one, again)


def test_equal_keys_do_not_make_masks_cancel_at_a_client():
    """As they would for the client in the middle, if both of its pairs had one stream."""
    keys = dict.fromkeys([0, 1, 2], public_key(private(0)))
    assert (mask(1, private(0), keys, CONTEXT, 1000) == 0).sum() == 0


def test_contexts_tell_everything_apart():
    keys = keys_of([1, 2, 12])
    contexts = {
        context_of(b"a", keys),
        context_of(b"b", keys),
        context_of(b"a", keys_of([1, 2])),
        context_of(b"a", {1: keys[2], 2: keys[1], 12: keys[12]}),
    }
    assert len(contexts) == 4
    assert context_of(b"a", dict(reversed(keys.items()))) == context_of(b"a", keys)


@pytest.mark.parametrize("value", [torch.inf, torch.nan, 1.001 * limit(5), -1.001 * limit(5)])
def test_numbers_that_a_sum_might_not_hold_are_refused(value):
    with pytest.raises(ValueError, match=r"^a number is beyond 2\.15e\+08, the maximum for a secure sum of 5 clients$"):
        encode(torch.tensor([0.0, value]), 5)
