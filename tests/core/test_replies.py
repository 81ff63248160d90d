"""What replies must be, and what becomes of those that are not."""

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
from fedkin.core.payload import (
    Nullable,
    Optional,
    below,
    int64,
    is_amount,
    is_count,
    is_flag,
    is_number,
    is_shape,
    objection,
    positive,
    reals,
    refusal,
    updates,
)
from fuzzing import damaged_tree, fuzzed


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (is_number, [0, -1.5], [True, "1", None, torch.tensor(1.0), [1]]),
        (is_count, [0, 7], [-1, 1.0, True, 2**53, "1"]),
        (is_amount, [0, 2.5], [-0.1, True, "1"]),
        (is_flag, [True, False], [0, "yes", None]),
        (is_shape, [[3], [1, 8, 8]], [[], [0], [1.5], 3, [[3]], "3"]),
        (below(3), [0, 2, torch.tensor([0, 2]), torch.zeros(0, dtype=torch.int64)],
         [3, -1, torch.tensor([3]), torch.tensor([-1]), torch.tensor([0.0]), True]),
    ],
)  # fmt: skip
def test_checks_know_what_is_meant(check, good, bad):
    assert all(check(value) for value in good)
    assert not any(check(value) for value in bad)


def test_tensors_have_the_dtype_and_range_that_is_wanted():
    assert refusal({"x": torch.ones(2)}, {"x": reals(2)}) is None
    assert refusal({"x": torch.ones(2).double()}, {"x": reals(2)}) == (
        "'x' is of torch.float64 where torch.float32 was expected"
    )
    assert refusal({"x": torch.ones(2, dtype=torch.bool)}, {"x": reals(2)}) is not None
    assert refusal({"x": torch.tensor([1e11])}, {"x": updates(1)}) is not None
    assert refusal({"x": torch.tensor([3])}, {"x": int64(1, bound=3)}) is not None


@pytest.mark.parametrize(
    "bad",
    [10**400, 2**53 + 1, 1e31, "x" * 5000, "\ud800", torch.tensor([3e38]), {"x" * 5000: 1}],
    ids=["long int", "int", "float", "text", "surrogate", "tensor", "key"],
)
def test_what_is_beyond_all_bounds_is_refused_wherever_it_stands(bad):
    assert refusal({"fine": 1.0, "deep": [{"bad": bad}]}) is not None


SPACE = {"mean": reals("width"), "seed": Nullable(is_count), "more": Optional(is_number)}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"space": {"mean": torch.ones(2), "seed": None}, "radius": 1.0}, None),
        ({"space": {"mean": torch.ones(2), "seed": 3, "more": 1}, "radius": 1.0}, None),
        ({"space": {"mean": torch.ones(5, 2), "seed": None}, "radius": 1.0},
         "'space/mean' has shape (5, 2) where ('width',) was expected"),
        ({"space": {"mean": torch.ones(2), "seed": None}, "radius": torch.ones(2)},
         "'radius' is not what it should be"),
        ({"space": {"mean": torch.ones(2), "seed": None}, "radius": float("nan")}, "'radius' is not what it should be"),
        ({"space": {"mean": torch.ones(2)}, "radius": 1.0}, "'space/seed' is absent"),
        ({"space": 3, "radius": 1.0}, "'space' is no mapping"),
        ({"space": {"mean": torch.ones(2), "seed": None}, "radius": 1.0, "x": 1}, "'x' is not expected"),
        ({"space": {"mean": torch.ones(2), "seed": None, "x" * 9999: 1}, "radius": 1.0}, "'space/?' is not expected"),
        ({"space": {"mean": torch.ones(2), "seed": None}, "radius": 1.0, "\ud800": 1}, "'?' is not expected"),
    ],
)  # fmt: skip
def test_a_payload_is_what_the_task_takes(payload, reason):
    assert objection(payload, {"space": SPACE, "radius": positive}) == reason


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
            assert fed.missing[1].kind == "unusable"
            assert 0 < len(fed.missing[1].encode()) < 10_000

    check()
    assert ends["missing"] > ends.total() / 3


def is_declared(reply: Payload, task: Task) -> bool:
    """Whether a reply holds what it must, and nothing that no reply may hold."""
    if task.may_be_empty and not reply:
        return True
    there = all(
        fits(reply[name], want) if name in reply else isinstance(want, Optional) for name, want in task.holds.items()
    )
    finite = all(torch.isfinite(leaf).all() for leaf in _leaves(reply) if isinstance(leaf, Tensor))
    short = all(len(leaf.encode()) < 5 * 4096 for leaf in _leaves(reply) if isinstance(leaf, str))
    return there and finite and short


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
