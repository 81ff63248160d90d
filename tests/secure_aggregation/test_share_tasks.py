"""A server that lies about who dropped out: no client gives it both kinds of shares of anybody."""

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch

from fedkin.core import Payload, Task
from fedkin.core.errors import FedkinError
from fedkin.engines.site import Request, Site
from fedkin.secure_aggregation.client_tasks import REVEALED, masked, reveal_shares, send_shares
from fedkin.secure_aggregation.masks import OWN, PAIRS, threshold
from fedkin.secure_aggregation.sums import summed
from lying import TERMS, Watched, give
from nodes import RUN, federation, nodes_of

MIXED = "survivors and dropped are not different clients of the sum"
SEALED = "it cannot open its shares of others' keys"
USED = {"refused": "its tag has been used for another request"}


def after_a_sum(clients: int = 6) -> Watched:
    """A federation whose sum is over, between clients that remember."""
    fed = Watched(clients)
    assert summed(fed, give, fed.all(), TERMS)[0].clients == list(range(clients))
    fed.as_real()
    for client, request in fed.requests["masked"].items():
        masked.run([fed.clients[client]], [request])
    return fed


def lists(fed: Watched, dropped: list[int]) -> Payload:
    """What the server says to the clients about who dropped out."""
    request = fed.requests["reveal_shares"][0]
    return request | {"survivors": [i for i in request["ids"] if i not in dropped], "dropped": dropped}


def answer(fed: Watched, client: int, request: Payload) -> Payload:
    [reply] = reveal_shares.run([fed.clients[client]], [request])
    return reply


@pytest.mark.parametrize("first", [[], [1]], ids=["first a survivor", "first dropped"])
def test_a_client_says_once_who_dropped_out(first):
    fed = after_a_sum()
    second = [1] if not first else []
    reply = answer(fed, 0, lists(fed, first))
    assert reply.keys() == {"own", "pairs"}
    assert len(reply["own"]) == 6 - len(first)
    assert len(reply["pairs"]) == len(first)
    assert answer(fed, 0, lists(fed, second)) == USED
    again = answer(fed, 0, lists(fed, first))  # as after a reply that was lost
    assert all(torch.equal(again[name], reply[name]) for name in reply)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"survivors": [0, 1, 2, 3, 4, 5], "dropped": [1]}, MIXED),
        ({"survivors": [0, 0, 2, 3, 4]}, MIXED),
        ({"survivors": [0, 1, 2, 3, 9]}, MIXED),
        ({"survivors": [1, 2, 3, 4, 5]}, "it is not among the survivors"),
        ({"survivors": [0, 1, 2, 3], "dropped": [4, 5]}, "fewer than 5 survivors"),
        ({"survivors": [0], "dropped": [1, 2, 3, 4, 5]}, "fewer than 5 survivors"),
        ({"ids": [0, 1], "keys": torch.zeros(2, 32, dtype=torch.uint8)}, "fewer than 3 clients to sum over"),
    ],
)
def test_lists_that_no_honest_server_sends_are_refused(changes, reason):
    fed = after_a_sum()
    assert answer(fed, 0, lists(fed, []) | changes) == {"refused": reason}
    assert REVEALED not in fed.clients[0].state


def test_a_key_that_is_none_ends_no_task():
    fed = after_a_sum()
    asked = {name: fed.requests[name][0] for name in ("send_shares", "masked", "reveal_shares")}
    keys = asked["masked"]["keys"].clone()
    keys[3] = 0
    for task, refused in ((send_shares, "a key is invalid"), (reveal_shares, "a key is invalid"), (masked, SEALED)):
        [reply] = task.run([fed.clients[0]], [asked[task.name.rpartition(".")[2]] | {"keys": keys}])
        assert reply["refused"] == refused


def test_however_it_lies_a_server_recovers_one_key_of_a_client_at_most():
    """It tells some that client 1 dropped out and the others that it did not; no split gives it enough of both."""
    clients = 6
    for believers in range(clients):
        for believing in combinations([0, 2, 3, 4, 5], believers):
            fed = after_a_sum(clients)
            got: dict[int, set[int]] = {PAIRS: set(), OWN: set()}
            for client in (0, 2, 3, 4, 5):
                kinds = [1] if client in believing else []
                for dropped in (kinds, [] if kinds else [1]):  # and then it tries the other
                    reply = answer(fed, client, lists(fed, dropped))
                    if "refused" not in reply:
                        got[PAIRS if dropped else OWN].add(client)
            assert got[PAIRS] | got[OWN] == {0, 2, 3, 4, 5}
            assert not got[PAIRS] & got[OWN]
            assert min(map(len, got.values())) < threshold(clients)
        if believers > 2:
            break  # the rest is the same with the kinds exchanged


def test_keys_that_were_revealed_serve_no_other_question():
    """After it has had the key of client 1, a server asks it something else under the same masks."""
    fed = after_a_sum()
    request = fed.requests["masked"][1]
    [first] = masked.run([fed.clients[1]], [request])
    [again] = masked.run([fed.clients[1]], [request])
    assert torch.equal(first["masked"], again["masked"])
    [other] = masked.run([fed.clients[1]], [request | {"payload": {"other": 1}}])
    assert other == USED


@pytest.mark.parametrize("kind", [PAIRS, OWN])
def test_a_server_cannot_put_its_own_keys_of_a_sum_in_a_clients_place(kind):
    fed = after_a_sum()
    request = fed.requests["masked"][0]
    publics = request["publics"].clone()
    publics[3, kind] = torch.randint(256, (32,), generator=torch.Generator().manual_seed(0)).byte()
    [reply] = masked.run([fed.clients[0]], [request | {"publics": publics}])
    assert reply == {"refused": SEALED, "sealed": [3]}
    moved = request["shares"].clone()
    moved[3, kind] = request["shares"][4, kind]
    [reply] = masked.run([fed.clients[0]], [request | {"shares": moved}])
    assert reply["sealed"] == [3]
    [own] = masked.run([fed.clients[0]], [request | {"publics": publics[[3, 1, 2, 3, 4, 5]]}])
    assert own["sealed"] == [0, 3]


def test_a_site_remembers_whatever_the_server_goes_back_to(tmp_path: Path) -> None:
    """A server that says the run is where it was gets no second answer, though the site forgets the rest."""
    sites = [Site(f"site-{i}", tmp_path / str(i), torch.ones(1, 3), packages=None) for i in range(6)]
    fed = federation(nodes_of(sites))
    asked = watched(fed)
    assert summed(fed, give, fed.all(), TERMS)[0].clients == [0, 1, 2, 3, 4, 5]

    def answer(exchange: int, task: Task, payload: Payload) -> Payload:
        return sites[0].answer(Request(RUN, 0, fed.seed, exchange, 0, task.name), payload)[0]

    honest = asked["reveal_shares"]
    lie = honest | {"survivors": [0, 2, 3, 4, 5], "dropped": [1]}
    assert answer(9, reveal_shares, honest).keys() == {"own", "pairs"}
    for exchange in (9, 4, 3, 2):  # later ones are forgotten but for what lasts
        assert answer(exchange, reveal_shares, lie) == USED
    assert answer(3, masked, asked["masked"] | {"payload": {"more": 1}}) == USED
    assert answer(1, reveal_shares, lie) == {"refused": "its key is another"}  # its secret is forgotten with the rest
    with pytest.raises(FedkinError, match="'survivors/0' is not what it should be"):
        answer(4, reveal_shares, lie | {"survivors": ["0"]})


def watched(fed: Any) -> dict[str, Payload]:
    """What client 0 is asked from now on, by name of the task."""
    asked: dict[str, Payload] = {}
    deliver = fed.deliver

    def seen(task: Task, payloads: Any) -> Any:
        asked[task.name.rpartition(".")[2]] = payloads[0]
        return deliver(task, payloads)

    fed.deliver = seen
    return asked


def test_only_those_who_shared_masks_can_have_dropped_out():
    """Otherwise a server could have few share masks, and then drop most of those from the sum."""
    fed = after_a_sum()
    request = fed.requests["masked"][0] | {"tag": torch.ones(16, dtype=torch.uint8)}
    distributed = {"ids": request["ids"], "keys": request["keys"], "tag": request["tag"]}
    shares = [send_shares.run([fed.clients[i]], [distributed])[0] for i in range(5)]
    of_five = {
        "dealers": [0, 1, 2, 3, 4],
        "publics": torch.stack([reply["publics"] for reply in shares]),
        "shares": torch.stack([reply["shares"][0] for reply in shares]),
    }
    assert masked.run([fed.clients[0]], [request | of_five])[0].keys() == {"masked"}
    lie = lists(fed, [4]) | {"tag": request["tag"]}
    assert answer(fed, 0, lie) == {"refused": "it shares no masks with just these clients"}
    assert answer(fed, 5, lie) == {"refused": "it shares no masks with just these clients"}  # it has hidden nothing
    assert answer(fed, 0, lie | {"survivors": [0, 1, 2, 3, 4], "dropped": []}).keys() == {"own", "pairs"}
