"""Matching of prototypes: whatever order clients number their clusters in, the server undoes it."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.methods.clients.embedding.embedding import matched, matched_to

SEGMENTS, WIDTH = 5, 24


def drawn(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def distinct(seed: int) -> torch.Tensor:
    """Segments ``(SEGMENTS, WIDTH)`` of bits that differ in about half."""
    return torch.randint(0, 2, (SEGMENTS, WIDTH), generator=drawn(seed), dtype=torch.uint8)


def same_segments(one: torch.Tensor, other: torch.Tensor) -> bool:
    return sorted(one.view(SEGMENTS, -1).tolist()) == sorted(other.view(SEGMENTS, -1).tolist())


orders = st.lists(st.permutations(range(SEGMENTS)), min_size=1, max_size=8)


@given(orders, st.integers(0, 99))
def test_any_order_of_the_segments_is_undone(orders, seed):
    parts = distinct(seed)
    template, messages = matched(torch.stack([parts[order].flatten() for order in orders]), SEGMENTS)
    assert messages.dtype == torch.uint8
    assert all(torch.equal(message, messages[0]) for message in messages)
    assert same_segments(messages[0], parts)
    assert torch.equal(template, messages[0].view(SEGMENTS, WIDTH).float())


@given(orders, st.integers(0, 99))
def test_what_clients_send_beside_the_order_is_left_as_it_is(orders, seed):
    """Whether or not the order is found, no bit of a segment changes, and the template is the mean of all."""
    sent = torch.stack([distinct(seed + at)[order].flatten() for at, order in enumerate(orders)])
    template, messages = matched(sent, SEGMENTS)
    assert all(same_segments(*pair) for pair in zip(messages, sent, strict=True))
    assert torch.allclose(template, messages.view(-1, SEGMENTS, WIDTH).float().mean(0))


@given(st.lists(st.permutations(range(SEGMENTS)), min_size=6, max_size=6), st.integers(0, 99))
def test_a_flipped_bit_here_and_there_does_not_matter(orders, seed):
    parts = torch.eye(SEGMENTS, dtype=torch.uint8).repeat_interleave(6, dim=1)  # no two are alike
    noise = torch.rand(6, SEGMENTS, parts.shape[1], generator=drawn(seed)) < 0.05
    own = parts ^ noise.to(torch.uint8)
    sent = torch.stack([part[order].flatten() for part, order in zip(own, orders, strict=True)])
    _, messages = matched(sent, SEGMENTS)
    columns = (own[0].view(SEGMENTS, -1)[:, None] == messages[0].view(SEGMENTS, -1)[None]).all(2).nonzero()[:, 1]
    assert torch.equal(messages.view(6, SEGMENTS, -1)[:, columns], own)


@given(st.permutations(range(SEGMENTS)), st.integers(0, 99))
def test_a_later_message_is_brought_into_the_templates_order(order, seed):
    parts = distinct(seed)
    found = matched_to(parts.float(), parts[order].flatten())
    assert torch.equal(found, parts.flatten())
    assert found.dtype == torch.uint8
