"""Secure sums: what crosses, what the server learns, and who may be missing."""

import pytest
import torch

from fedkin.core import Client, Federation, FedkinError, Task, task
from fedkin.engines.local import LocalFederation
from fedkin.secure_aggregation.client_tasks import Term, masked
from fedkin.secure_aggregation.sums import summed, sums_of_all

TERMS = [Term("x", (2, 3), "count"), Term("count"), Term("loss")]


@task
def tell(clients, payloads):
    return [
        {"x": client.x + payload["add"], "count": client.id + 1, "loss": 0.25 * client.id, "note": "not for you"}
        for client, payload in zip(clients, payloads, strict=True)
    ]


def sites(n: int = 5) -> list[Client]:
    return [Client(i, torch.arange(6.0).view(2, 3) / 7 + i) for i in range(n)]


def federation(n: int = 5, **options: object) -> LocalFederation:
    return LocalFederation(sites(n), workers=1, **options)


def ask(fed: Federation, **options: object) -> dict:
    return summed(fed, tell, fed.all(add=0.5), TERMS, **options)


def expected(ids: list[int]) -> dict[str, torch.Tensor]:
    return {
        "x": sum((i + 1) * (sites()[i].x + 0.5).double() for i in ids),
        "count": torch.tensor(sum(i + 1.0 for i in ids)).double(),
        "loss": torch.tensor(sum(0.25 * i for i in ids)).double(),
    }


def assert_sum(sum_: object, ids: list[int]) -> None:
    assert sum_.clients == ids
    assert sum_.totals.keys() == expected(ids).keys()
    for name, total in expected(ids).items():
        torch.testing.assert_close(sum_.totals[name], total, rtol=0, atol=1e-8)


class Watched(LocalFederation):
    """Keeps everything that crosses."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)
        self.seen: list[tuple[str, int, dict, object]] = []

    def deliver(self, task: Task, payloads: dict) -> object:
        for client, reply in super().deliver(task, payloads):
            self.seen.append((task.name.rpartition(".")[2], client, payloads[client], reply))
            yield client, reply

    def requests(self, task: str) -> dict[int, dict]:
        """The last requests to do a task, by client."""
        return {client: payload for name, client, payload, _ in self.seen if name == task}

    def replies(self, task: str) -> list[dict]:
        return [reply for name, _, _, reply in self.seen if name == task]


def test_sums_come_out_weighted_and_of_numbers_too():
    fed = federation()
    [found] = ask(fed).values()
    assert_sum(found, [0, 1, 2, 3, 4])
    assert fed.missing == {}
    assert fed.exchange == 4
    assert_sum(ask(fed)[0], [0, 1, 2, 3, 4])
    assert fed.exchange == 7  # keys are asked for once


def test_nothing_crosses_but_keys_and_numbers_that_tell_nothing():
    fed = Watched(sites(), workers=1)
    ask(fed)
    ask(fed)
    one_sum = ["send_shares"] * 5 + ["masked"] * 5 + ["reveal_shares"] * 5
    assert [name for name, *_ in fed.seen] == ["send_key"] * 5 + 2 * one_sum
    for name, client, _, reply in fed.seen:
        if name == "send_key":
            assert reply.keys() == {"key"}
            assert not torch.equal(reply["key"], fed.clients[client].state["sums_key"])
        elif name == "masked":
            assert reply.keys() == {"masked"}
            assert reply["masked"].dtype == torch.int64
            given = torch.cat([sites()[client].x.flatten() + 0.5, torch.tensor([client + 1.0, 0.25 * client])])
            assert ((reply["masked"].double() / 2**32 - given).abs() > 1e3).all()
        else:
            assert reply.keys() <= {"publics", "shares", "own", "pairs"}
            assert {value.dtype for value in reply.values()} == {torch.uint8}
    replies = [reply["masked"] for reply in fed.replies("masked")]
    for one, other in zip(replies[:5], replies[5:], strict=True):
        assert not (one == other).any()  # the same numbers behind other masks


def test_masks_do_not_cancel_where_clients_are_asked_different_things():
    fed = federation()
    payloads = {client: {"add": 0.5 if client == 2 else 0.25} for client in fed.ids}
    sum_ = summed(fed, tell, payloads, TERMS)[0]  # a server that knows the others' parts would learn that of 2
    assert sum_.clients == fed.ids
    assert (sum_.totals["count"] - 15).abs() > 1e3
    alike = {client: {"add": 0.25} for client in fed.ids}
    assert float(summed(fed, tell, alike, TERMS)[0].totals["count"]) == pytest.approx(15)


def test_a_cluster_that_lost_somebody_does_not_hold_up_the_other():
    fed = Watched(sites(6), workers=1, failures=[(2, 0)])
    found = ask(fed, clusters=dict(enumerate([0, 1, 0, 1, 0, 1])))
    assert list(found) == [1]
    assert found[1].clients == [1, 3, 5]
    assert fed.missing == {0: "lost on purpose", **dict.fromkeys([2, 4], "fewer than 3 clients to sum over")}
    assert fed.exchange == 4


@task
def unfit(clients, payloads):
    replies = {1: {"x": torch.tensor([0.0, torch.nan])}, 2: {"x": torch.tensor([0.0, 3e8])}, 3: {"x": torch.zeros(3)}}
    return [replies.get(client.id, {"x": torch.ones(2)}) for client in clients]


def test_numbers_unfit_for_a_sum_are_missing_by_name():
    fed = federation(7)
    found = summed(fed, unfit, fed.all(), [Term("x", (2,))])
    assert found[0].clients == [0, 4, 5, 6]
    torch.testing.assert_close(found[0].totals["x"], torch.full((2,), 4.0).double())
    assert fed.missing == {
        1: "'x' is not finite",
        2: "a number is beyond 1.53e+08, the maximum for a secure sum of 7 clients",
        3: "'x' has shape (3,) where (2,) was expected",
    }


def test_a_client_that_lost_its_memory_is_left_out_once_and_asked_for_its_new_key():
    fed = federation()
    ask(fed)
    fed.clients[3].state.clear()
    assert_sum(ask(fed)[0], [0, 1, 2, 4])
    assert fed.missing == {3: "its key is another"}
    assert_sum(ask(fed)[0], [0, 1, 2, 3, 4])


def test_clients_refuse_to_be_uncovered():
    """Whatever a server asks: no sum of two, and none in which masks of one client cannot hide another's."""
    fed = Watched(sites(), workers=1)
    ask(fed)
    request, client = fed.requests("masked")[0], fed.clients[0]
    two = request | {"ids": [0, 1], "keys": request["keys"][:2]}
    without = request | {"ids": [1, 2, 3], "keys": request["keys"][1:4]}
    twice = request | {"keys": request["keys"][[0, 1, 2, 3, 3]]}
    more = request | {"ids": [*request["ids"], 5]}
    few = request | {name: request[name][:3] for name in ("dealers", "publics", "shares")}
    absent = request | {name: request[name][1:] for name in ("dealers", "publics", "shares")}
    named_twice = request | {"ids": [*request["ids"], 0], "keys": request["keys"][[0, 1, 2, 3, 4, 0]]}
    replies = masked.run([client] * 7, [two, without, twice, more, named_twice, few, absent])
    assert [reply["refused"] for reply in replies] == [
        "fewer than 3 clients to sum over",
        "its key is another",
        "two clients have the same key",
        "clients and keys are not one each",
        "clients and keys are not one each",
        "fewer than 4 of 5 clients are dealers",
        "it is not among the dealers",
    ]
    assert all(reply.keys() == {"refused"} for reply in replies)


@task(moves_data=True)
def bring(clients, payloads):
    return [{"x": client.x} for client in clients]


def test_samples_are_not_sent_away_in_a_sum():
    fed = Watched(sites(), workers=1)
    ask(fed)
    with pytest.raises(FedkinError, match=r"bring' is not summed with this request: samples"):
        masked.run([fed.clients[0]], [fed.requests("masked")[0] | {"task": bring.name}])


def test_a_sum_of_all_is_asked_for_until_all_are_in_it():
    fed = Watched(sites(), workers=1, failures=[(1, 0), (3, 3), (5, 1), (5, 2), (8, 4)])
    totals = sums_of_all(fed, tell, {"add": 0.5}, TERMS)
    assert len(fed.replies("masked")) == 2 * 5  # no sum over some, whose difference to that of all would be the others'
    assert {len(request["survivors"]) for request in fed.requests("reveal_shares").values()} == {5}
    for name, total in expected([0, 1, 2, 3, 4]).items():
        torch.testing.assert_close(totals[name], total, rtol=0, atol=1e-8)
