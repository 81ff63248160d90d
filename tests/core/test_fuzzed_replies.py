"""Replies that are damaged: a client that sends one is missing, or its reply is what the task declares."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import crossed
from declared import fits
from fedkin.core import Federation, Payload, Task
from fuzzing import damaged_tree, fuzzed


class Sending(Federation):
    """Client 1 sends a given reply, clients 0 and 2 an honest one."""

    def __init__(self, reply: Any, honest: Payload) -> None:
        super().__init__([0, 1, 2])
        self.replies = [honest, reply, honest]

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Any]]:
        yield from enumerate(self.replies)


@pytest.mark.parametrize("source", crossed.tried())
def test_a_damaged_reply_makes_its_client_missing_or_is_as_declared(source: str) -> None:
    crossings, ends = [crossing for crossing in crossed.crossings(source).values() if crossing.reply], Counter[str]()

    @fuzzed(30, len(crossed.tried()))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        crossing = data.draw(st.sampled_from(crossings))
        reply = data.draw(damaged_tree(crossing.reply))
        fed = Sending(reply, crossing.reply)
        replies = fed.ask(crossing.task, fed.all())
        assert replies.keys() >= {0, 2}
        if 1 in replies:
            ends["used"] += 1
            assert replies[1] is reply
            assert is_declared(reply, crossing.task)
        else:
            ends["missing"] += 1
            assert fed.missing[1].kind in ("unusable", "diverged")
            assert 0 < len(fed.missing[1].encode()) < 10_000

    check()
    assert ends["missing"] > ends.total() / 3


def is_declared(reply: Payload, task: Task) -> bool:
    """Whether a reply holds what it must, and nothing that no reply may hold."""
    if task.may_be_empty and not reply:
        return True
    there = all(name in reply and fits(reply[name], want) for name, want in task.holds.items())
    may = all(fits(reply[name], want) for name, want in task.may_hold.items() if name in reply)
    finite = all(torch.isfinite(leaf).all() for leaf in _leaves(reply) if isinstance(leaf, Tensor))
    short = all(len(leaf.encode()) < 5 * 4096 for leaf in _leaves(reply) if isinstance(leaf, str))
    return there and may and finite and short


@fuzzed(50)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just(torch.zeros(2)),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.sets(st.integers()),
        max_leaves=6,
    ).filter(lambda reply: not isinstance(reply, str))  # which is an engine's own way to say why there is none
)
def test_whatever_is_sent_in_place_of_a_reply_harms_nobody_else(reply: object) -> None:
    crossing = crossed.crossings("kfed")["fedkin.methods.samples.kfed.cluster_locally"]
    fed = Sending(reply, crossing.reply)
    assert list(fed.ask(crossing.task, fed.all())) == [0, 2]
    assert fed.missing[1]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield value
