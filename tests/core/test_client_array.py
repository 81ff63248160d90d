"""Clients of one array: they reply, keep and cost what the same clients do one at a time."""

import numpy as np
import pytest
import torch

from fedkin.core import Client, FedkinError, block_task, client_task
from fedkin.core.client_array import ClientArray
from fedkin.core.runner import Runner
from fedkin.data.options import TableOptions
from fedkin.data.preparation import prepare
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.centralized import KMeansMethod
from fedkin.methods.samples.feddp_kmeans import FedDPKMeansMethod
from fedkin.methods.samples.ffcm import FFCMMethod
from fedkin.methods.samples.kfed import KFedMethod
from fedkin.methods.samples.kingraph.kingraph import KinGraphMethod
from fedkin.methods.samples.mufc import MUFCMethod

SIZES = [9, 12, 9, 3, 12, 30, 9]
METHODS = {
    "kfed": KFedMethod(n_clusters=3, local_clusters=4),
    "kfed, induced": KFedMethod(n_clusters=3, assign="induced"),
    "ffcm": FFCMMethod(n_clusters=3, local_clusters=2, rounds=3),
    "ffcm, mean": FFCMMethod(n_clusters=3, start="uniform", aggregation="mean", rounds=3),
    "mufc": MUFCMethod(n_clusters=3, local_clusters=5),
    "feddp-kmeans": FedDPKMeansMethod(n_clusters=3, epsilon=50.0, rounds=2),
    "kin-graph": KinGraphMethod(n_clusters=3, common_micro_clusters=False, min_members=3, broadcast_nodes=True),
    "kin-graph, kept": KinGraphMethod(n_clusters=3, common_micro_clusters=False, min_members=3, broadcast_nodes=False),
    "kin-graph, common": KinGraphMethod(n_clusters=3, common_micro_clusters=True, min_members=3),
    "kmeans": KMeansMethod(n_clusters=3, features="unit"),
}


def rows() -> torch.Tensor:
    """Rows around three corners, some of them equal, in which a client of three has fewer than it is asked for."""
    rng = torch.Generator().manual_seed(2)
    x = 4 * torch.eye(3, 6)[torch.randint(3, (sum(SIZES),), generator=rng)]
    x += 0.3 * torch.randn(x.shape, generator=rng)
    x[30:33] = x[30]
    return x


def both(**options) -> tuple[LocalFederation, LocalFederation]:
    """The same clients as one array, and one at a time."""
    offsets = np.cumsum([0, *SIZES])
    singles = [Client(i, part) for i, part in enumerate(rows().split(SIZES))]
    return LocalFederation(ClientArray(rows(), offsets), 5, **options), LocalFederation(singles, 5, **options)


@pytest.mark.parametrize("name", METHODS)
def test_clients_of_one_array_are_clustered_as_one_at_a_time(name):
    """Missing clients, clients of several sizes, and clients with fewer different rows than clusters included."""
    method, outcomes = METHODS[name], []
    for fed in both(failures=[(2, 1)]):
        runner = Runner(method, fed)
        state = runner.start()
        records = []
        while not state.finished:
            state, record = method.step(fed, state)
            records.append(record)
        outcomes.append((fed, state, records))
    (array, state, records), (single, expected, wanted) = outcomes
    torch.testing.assert_close(state.centroids, expected.centroids, rtol=1e-5, atol=1e-5)
    assert [record.missing for record in records] == [record.missing for record in wanted]
    assert [record.answered for record in records] == [record.answered for record in wanted]
    assert (array.sent, array.requested, array.usable) == (single.sent, single.requested, single.usable)
    assert array.received == pytest.approx(single.received, abs=5), "a pool's numbers have more digits"
    for i in range(len(SIZES)):
        kept, alone = array.clients[i].state, single.clients[i].state
        assert alone.keys() - kept.keys() <= {"present", "centroid_rows"}, "which MUFC forgets by, unless in one array"
        for part in kept:
            torch.testing.assert_close(kept[part], alone[part], rtol=1e-4, atol=1e-4)


def summed(client, payload):
    client.state["seen"] = client.state.get("seen", torch.tensor(0)) + 1
    return {"sum": client.x.sum()[None] + torch.rand(1, generator=client.rng), "parity": client.id % 2}


one_by_one = client_task(holds={"sum": (1,)})(summed)


def test_a_task_without_blocks_does_clients_of_one_array_one_by_one():
    array, single = both(failures=[(1, 3)])
    for _ in range(2):
        replies, expected = (fed.ask(one_by_one, fed.all()) for fed in (array, single))
        assert list(replies) == list(expected)
        assert all(torch.equal(replies[i]["sum"], expected[i]["sum"]) for i in replies)
    assert [int(array.clients[i].state["seen"]) for i in range(len(SIZES))] == [2, 2, 2, 1, 2, 2, 2]


def sums_of_block(block, payload):
    sums = block.x.sum((1, 2))[:, None]
    return {"sum": sums.masked_fill(block.ids[:, None] == 4, torch.nan), "parity": block.ids % 2}


@client_task(holds={"sum": (1,)}, block=sums_of_block)
def in_blocks(client, payload):
    return summed(client, payload)


def test_an_unusable_reply_of_a_block_is_its_client_s_alone():
    array, _ = both()
    replies = array.ask(in_blocks, array.all())
    assert list(replies.missing) == [4]
    assert list(replies) == [0, 1, 2, 3, 5, 6]
    assert [replies[i]["parity"] for i in replies] == [0, 1, 0, 1, 1, 0]
    assert array.usable == 6


@block_task(pools=True)
def count_many(block, payload):
    return {"count": torch.where(block.ids == 4, 1e30, 1.0).sum()[None]}


def test_of_a_pool_whose_sum_is_too_large_one_client_alone_is_missing():
    sums = both()[0].sums()
    assert sums.ask(count_many, {}, {"count": (1,)})["count"] == len(SIZES) - 1
    assert list(sums.missing) == [4]


def test_who_answers_a_sum_the_second_time_is_not_missing():
    fed = both(failures=[(1, 2)])[0]
    sums = fed.sums()
    assert sums.ask(count_many, {}, {"count": (1,)})["count"] == len(SIZES) - 1
    assert list(sums.missing) == [4]


@block_task(pools=True)
def decline(block, payload):
    block.declined[:] = True
    return {}


def test_an_exchange_in_which_all_decline_ends_the_run():
    fed = both()[0]
    with pytest.raises(FedkinError, match="failed at all 7 clients asked: its privacy budget"):
        list(fed.pools(decline, fed.all()))


@pytest.mark.parametrize("offsets", [[1, 84], [0, 50, 50, 84], [0, 80], [84]])
def test_offsets_that_do_not_divide_the_rows_are_refused(offsets):
    with pytest.raises(FedkinError):
        ClientArray(rows(), offsets)


@pytest.mark.parametrize("scaling", ["none", "auto"])
def test_clients_of_one_array_that_never_describe_their_data_are_left_out_with_the_reason(scaling):
    """In a pool that cannot be used only the clients at fault are out; one that was lost once is asked again."""
    lost = [(exchange, 2) for exchange in range(1, 30)]
    array, _ = both(failures=[*lost, (1, 3)])
    prepare(array, TableOptions(scaling=scaling))
    assert array.dropped == {2: "lost on purpose"}
    runner = Runner(METHODS["kfed"], array)
    lines = []
    runner.callbacks.step = lambda line, timing: lines.append(line)
    runner.steps()
    assert [line["missing"] for line in lines] == [{"2": "lost on purpose"}] * len(lines)


def test_exchanges_of_one_array_are_counted_by_task():
    array, single = both()
    for fed in (array, single):
        fed.ask(in_blocks, fed.all(least=5))
    assert array.by_task == single.by_task != {}
