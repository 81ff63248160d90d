"""Clients that drop out of a sum at any moment, and clients that lie in it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core import Payload, Task
from fedkin.engines.flower_engine.grid import FlowerFederation
from fedkin.engines.site import Site
from fedkin.secure_aggregation import masks, sums
from fedkin.secure_aggregation.client_tasks import context_of_masks, context_of_shares, question, secret_of
from fedkin.secure_aggregation.masks import OWN, PAIRS, decode, mask, own_mask, sum_keys, threshold
from fedkin.secure_aggregation.sums import Sum, summed, sums_of_all
from lying import TERMS, Watched, flipped, give
from nodes import Nodes, federation, nodes_of

KEYS, DEAL, HEAR, UNCOVER = 1, 2, 3, 4
"""Exchanges of the first sum."""


def sum_of(fed: Any, **options: Any) -> Sum | None:
    return summed(fed, give, fed.all(), TERMS, **options).get(0)


@pytest.mark.parametrize(
    ("when", "among"),
    [(KEYS, False), (DEAL, False), (HEAR, False), (UNCOVER, True)],
    ids=["keys", "distribute", "hear", "uncover"],
)
def test_who_drops_out_stops_nobody(when, among):
    fed = Watched(5, failures=[(when, 1)])
    found = sum_of(fed)
    ids = [0, 1, 2, 3, 4] if among else [0, 2, 3, 4]
    assert found.clients == ids
    torch.testing.assert_close(found.totals["x"], fed.total(ids), rtol=0, atol=1e-8)
    assert fed.missing == ({} if among else {1: "lost on purpose"})
    assert fed.exchange == UNCOVER  # nobody starts again
    assert fed.asked.count("masked") == 1
    everyone = sum_of(fed)
    assert everyone.clients == [0, 1, 2, 3, 4]
    torch.testing.assert_close(everyone.totals["x"], fed.total([0, 1, 2, 3, 4]), rtol=0, atol=1e-8)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_sum_survives_all_that_its_threshold_allows(data):
    """Clients drop at every moment; as many as are needed stay to the end."""
    clients = data.draw(st.integers(3, 12))
    going = data.draw(st.permutations(range(clients)))[: clients - threshold(clients)]
    failures = [(data.draw(st.sampled_from([DEAL, HEAR, UNCOVER])), client) for client in going]
    fed = Watched(clients, failures=failures)
    found = sum_of(fed, attempts=1)
    gone = [client for exchange, client in failures if exchange != UNCOVER]
    ids = [client for client in range(clients) if client not in gone]
    assert found.clients == ids
    torch.testing.assert_close(found.totals["x"], fed.total(ids), rtol=0, atol=1e-8)
    assert sorted(fed.missing) == sorted(gone)


def test_more_than_a_third_and_the_others_start_again():
    fed = Watched(5, failures=[(HEAR, 1), (HEAR, 2)])
    found = sum_of(fed)
    assert found.clients == [0, 3, 4]
    torch.testing.assert_close(found.totals["x"], fed.total([0, 3, 4]), rtol=0, atol=1e-8)
    assert fed.missing == dict.fromkeys([1, 2], "lost on purpose")
    assert fed.asked == [
        "send_key",
        *["send_shares", "masked"] * 2,
        "reveal_shares",
    ]  # nothing of the first is uncovered


def test_a_sum_of_all_is_uncovered_only_if_it_is_of_all():
    fed = Watched(5, failures=[(HEAR, 1)])
    assert sum_of(fed, attempts=1, complete=True) is None
    assert "reveal_shares" not in fed.asked
    fed = Watched(5, failures=[(DEAL, 1)])
    assert sum_of(fed, attempts=1, complete=True) is None
    assert "masked" not in fed.asked


def test_a_reply_that_comes_late_is_still_covered():
    """The server has recovered the key of the masks it shares; those of its own mask it has not."""
    fed = Watched(5)
    late: list[torch.Tensor] = []

    def kept(reply: Payload) -> Payload:
        late.append(reply["masked"])
        return {"refused": "too late"}

    fed.lies["masked", 1] = kept
    assert sum_of(fed).clients == [0, 2, 3, 4]
    opened = fed.replies["reveal_shares"][0]
    assert opened["pairs"].shape == (1, 16)
    assert opened["own"].shape == (4, 16)
    request = fed.requests["masked"][1]
    publics = {i: bytes(key[PAIRS].tolist()) for i, key in zip(request["dealers"], request["publics"], strict=True)}
    context = context_of_masks(request, publics, question(request))
    pairs, own = sum_keys(secret_of(fed.clients[1]), context_of_shares(request))
    without_pairs = late[0].numpy().view(np.uint64) - mask(1, pairs, publics, context, 3)
    assert ((decode(without_pairs) - fed.clients[1].x[0]).abs() > 1e3).all()
    bare = without_pairs - own_mask(1, own, context, 3)  # what both keys together would show
    torch.testing.assert_close(decode(bare), fed.clients[1].x[0].double())


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (lambda reply: {"refused": "no"}, "no"),
        (lambda reply: {"publics": reply["publics"]}, "'shares' is absent"),
        (lambda reply: reply | {"shares": reply["shares"][:4]}, r"'shares' has shape \(4, 2, 48\) where .*"),
        (lambda reply: reply | {"shares": reply["shares"].int()}, "'shares' is of torch.int32 where .*"),
        (lambda reply: reply | {"publics": torch.zeros_like(reply["publics"])}, "its key of the sum is invalid"),
    ],
)
def test_who_deals_nothing_usable_is_not_in_the_sum(lie, reason):
    fed = Watched(5, {("send_shares", 1): lie})
    found = sum_of(fed)
    assert found.clients == [0, 2, 3, 4]
    torch.testing.assert_close(found.totals["x"], fed.total([0, 2, 3, 4]), rtol=0, atol=1e-8)
    assert list(fed.missing) == [1]
    assert re.fullmatch(reason, fed.missing[1])


def test_who_opens_nobodys_shares_is_at_fault_itself():
    refusal = {"refused": "it cannot open its shares of others' keys", "sealed": [0, 2, 3, 4, 5]}
    fed = Watched(6, {("masked", 1): lambda reply: refusal})
    assert sum_of(fed).clients == [0, 2, 3, 4, 5]
    assert fed.missing == {1: "the shares between it and client 0, 2, 3, 4, 5 do not open"}


def test_where_two_disagree_both_are_left_out_of_the_sum_but_not_of_the_run():
    fed = Watched(7, {("send_shares", 1): flipped("shares", 3, OWN, 0)})
    assert sum_of(fed).clients == [0, 2, 4, 5, 6]
    assert fed.missing == {
        1: "the shares between it and client 3 do not open",
        3: "the shares between it and client 1 do not open",
    }
    assert fed.dropped == {}
    assert fed.asked.count("reveal_shares") == 1


@pytest.mark.parametrize(
    "lie", [flipped("own", 0, 0), flipped("pairs", 0, 3), lambda reply: {}], ids=["own", "pairs", "none"]
)
def test_who_gives_a_wrong_share_stops_nobody(lie):
    fed = Watched(7, {("reveal_shares", 2): lie}, failures=[(HEAR, 1)])
    found = sum_of(fed)
    assert found.clients == [0, 2, 3, 4, 5, 6]  # what it gave to the sum had been given by then
    torch.testing.assert_close(found.totals["x"], fed.total(found.clients), rtol=0, atol=1e-8)
    assert fed.missing == {1: "lost on purpose"}


@pytest.mark.parametrize(
    ("task", "lie", "reason"),
    [
        ("masked", {"refused": "no", "sealed": [99]}, "no"),  # whom it accuses is not in the sum
        ("send_key", {"key": torch.zeros(32, dtype=torch.uint8)}, "its key is invalid"),
    ],
)
def test_who_accuses_nobody_there_or_has_no_key_stops_nobody(task, lie, reason):
    fed = Watched(5, {(task, 1): lambda reply: lie})
    assert sum_of(fed).clients == [0, 2, 3, 4]
    assert fed.missing == {1: reason}


def test_who_deals_shares_of_another_key_is_left_out_and_the_others_start_again(monkeypatch):
    honest = masks.split

    def crooked(coefficients: list[int], holders: int) -> list[int]:
        """Shares that are sealed as they should be, but of no polynomial."""
        shares = honest(coefficients, holders)
        return [share ^ 1 for share in shares] if liar[0] else shares

    liar = [False]
    monkeypatch.setattr(masks, "split", crooked)

    class Crooked(Watched):
        def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Any:
            for client in sorted(payloads):
                liar[0] = client == 1 and task.name.endswith("send_shares")
                yield from super().deliver(task, {client: payloads[client]})

    fed = Crooked(6)
    found = sum_of(fed)
    assert found.clients == [0, 2, 3, 4, 5]
    torch.testing.assert_close(found.totals["x"], fed.total(found.clients), rtol=0, atol=1e-8)
    assert fed.missing == {1: "its shares are not those of its keys"}


def test_sites_that_are_gone_in_the_middle_stop_no_sum_on_flower(tmp_path: Path) -> None:
    """On Flower, between clients that keep what they must not forget on their disks."""
    rows = [torch.tensor([[i + 1.0, 10 * (i + 1.0), 0.5]]) for i in range(5)]
    made = [Site(f"site-{i}", tmp_path / str(i), x, packages=None) for i, x in enumerate(rows)]
    fed = leaving(nodes_of(made))
    for when in ("send_shares", "masked", "reveal_shares"):
        fed.leaving = {(when, 1)}
        found = sum_of(fed)
        ids = [0, 1, 2, 3, 4] if when == "reveal_shares" else [0, 2, 3, 4]
        assert found.clients == ids
        assert list(fed.missing) == [i for i in range(5) if i not in ids]
        assert found.totals["x"].tolist() == pytest.approx(torch.cat([rows[i] for i in ids]).sum(0).tolist())


def leaving(grid: Nodes) -> FlowerFederation:
    """A federation on Flower's messages whose sites in `leaving`, by task and client, are not reached."""
    fed = federation(grid)
    deliver = fed.deliver
    fed.leaving = set()

    def left(task: Task, payloads: Mapping[int, Payload]) -> Any:
        gone = {client for name, client in fed.leaving if task.name.endswith(name)}
        replies = deliver(task, {i: payload for i, payload in payloads.items() if i not in gone})
        yield from sorted([*replies, *((client, "gone") for client in gone & payloads.keys())], key=lambda one: one[0])

    fed.deliver = left  # type: ignore[method-assign]
    return fed


def test_many_clients_add_up_in_groups_that_lose_clients_each_for_itself():
    lost = {DEAL: [0, 3, 6], HEAR: [1], UNCOVER: [2]}
    failures = [(exchange, client) for exchange, clients in lost.items() for client in clients]
    fed = Watched(130, failures=failures)
    found = sum_of(fed, attempts=1)
    ids = [i for i in range(130) if i not in (0, 1, 3, 6)]
    assert found.clients == ids
    assert {len(request["ids"]) for request in fed.requests["masked"].values()} == {43, 44}
    exact = (torch.stack([fed.clients[i].x[0] for i in ids]).double() * 2**32).round().to(torch.int64).sum(0)
    assert torch.equal(found.totals["x"], exact.double() / 2**32)  # the bits of a single group's
    assert fed.exchange == UNCOVER


def test_a_group_that_loses_too_many_starts_again_without_the_others():
    failures = [(HEAR, client) for client in range(0, 45, 3)]  # 15 of the 44 of a group
    fed = Watched(130, failures=failures)
    found = sum_of(fed)
    assert found.clients == [i for i in range(130) if (HEAR, i) not in failures]
    assert fed.asked.count("masked") == 2
    assert set(fed.replies["reveal_shares"]) == set(found.clients)


def test_a_group_with_a_sum_is_not_asked_again_whoever_leaves(monkeypatch):
    monkeypatch.setattr(sums, "GROUP", 10)
    fed = Watched(26, failures=[(exchange, 4) for exchange in range(HEAR, 200)])
    fed.pause = lambda attempt: None
    totals = sums_of_all(fed, give, {}, TERMS)
    assert fed.dropped == {4: "lost on purpose"}
    torch.testing.assert_close(totals["x"], fed.total(fed.present), rtol=0, atol=1e-7)
    assert fed.answers["send_shares", 1] == 21  # in the group of client 4
    assert {fed.answers["send_shares", client] for client in range(26) if client % 3 != 1} == {1}
