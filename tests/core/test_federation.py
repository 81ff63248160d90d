import pytest
import torch

from fedkin.core import Client, Federation, FedkinError, task
from fedkin.core.payload import Failure, payload_bytes
from fedkin.engines.local import LocalFederation


@task
def double(clients, payloads):
    return [{"x": client.x.sum() * 2 + payload["add"]} for client, payload in zip(clients, payloads, strict=True)]


@task
def misbehave(clients, payloads):
    replies = {0: {"x": torch.zeros(3)}, 1: {"x": torch.tensor([1.0, torch.nan, 1.0])}, 2: {"x": torch.zeros(2)}, 3: {}}
    return [replies[client.id] for client in clients]


def federation(n=4, **options):
    return LocalFederation([Client(i, torch.full((2, 3), float(i))) for i in range(n)], **options)


def test_every_byte_is_counted_by_direction_and_a_shared_payload_for_everyone():
    fed = federation()
    payload = {"add": torch.zeros(100)}
    fed.ask(double, fed.all(**payload))
    assert fed.sent == 4 * payload_bytes(payload)
    assert fed.received == 4 * payload_bytes({"x": torch.zeros(100)})


def test_useless_replies_are_missing_by_name():
    fed = federation()
    assert list(fed.ask(misbehave, fed.all(), {"x": (3,)})) == [0]
    assert fed.missing == {
        1: "'x' is not finite",
        2: "'x' has shape (2,) where (3,) was expected",
        3: "'x' is absent",
    }


class Scripted(Federation):
    """Replies as written down, exchange by exchange; `said` tells which have been fetched."""

    def __init__(self, *script, clients=3):
        super().__init__(range(clients))
        self.script = list(script)
        self.asked = []
        self.said = []

    def deliver(self, task, payloads):
        self.asked.append(sorted(payloads))
        for client, reply in self.script.pop(0).items():
            self.said.append(client)
            yield client, reply


FINE = {"x": torch.zeros(2)}


NEVER = Failure("refused", "never")


def test_who_refuses_for_good_is_not_asked_again():
    fed = Scripted({0: FINE, 1: NEVER, 2: "broken"}, {2: "broken"}, {2: FINE})
    assert list(fed.ask_again(double, fed.all(), 5)) == [0, 2]
    assert fed.asked == [[0, 1, 2], [2], [2]]
    assert fed.missing == {1: "never"}
    fed = Scripted({0: FINE, 1: NEVER, 2: FINE})
    fed.min_clients = 3
    with pytest.raises(FedkinError, match=r"^Client 1 refuses, and too few clients remain without it: never$"):
        fed.ask_until_all_reply(double, {})


def test_what_everyone_refuses_for_good_ends_the_run_and_nothing_else_does():
    fed = Scripted(dict.fromkeys(range(3), NEVER))
    with pytest.raises(FedkinError, match=r"^never$"):
        fed.ask(double, fed.all())
    fed = Scripted({0: NEVER, 1: NEVER}, {1: NEVER})
    assert fed.ask(double, fed.all()) == {}
    assert fed.ask(double, {1: {}}) == {}
    fed = Scripted({0: NEVER, 1: NEVER})
    fed.leave({2})
    with pytest.raises(FedkinError, match=r"^never$"):
        fed.ask(double, fed.all())


def test_half_of_the_clients_cannot_end_a_run_by_failing():
    failed = Failure("failed", "the task failed there")
    fed = Scripted({0: failed, 1: failed}, dict.fromkeys(range(3), failed), clients=4)
    assert fed.ask(double, {0: {}, 1: {}}) == {}
    with pytest.raises(FedkinError, match="failed at all 3 clients"):
        fed.ask(double, {client: {} for client in range(3)})


def test_who_is_away_costs_nothing_and_is_missing_by_name():
    fed, other = Scripted({0: FINE}), Scripted({0: FINE})
    fed.leave({1})
    payload = {"add": torch.zeros(100)}
    replies = fed.ask(double, dict.fromkeys([2, 1, 0], payload))
    assert list(replies) == [0]
    assert replies.missing == fed.missing == {1: "not there yet", 2: "no reply"}
    assert list(replies.missing) == [1, 2]
    assert fed.asked == [[0, 2]]
    other.ask(double, dict.fromkeys([0, 2], payload))
    assert (fed.sent, fed.received, fed.exchange) == (other.sent, other.received, other.exchange)


def test_a_client_without_a_usable_reply_is_left_out_once_enough_others_replied():
    fed, said = Scripted({0: FINE, 2: FINE}, *[{1: "switched off"}] * 30), []
    fed.on_drop = said.append
    assert list(fed.ask_until_all_reply(double, {})) == [0, 2]
    assert fed.dropped == {1: "switched off"}
    assert fed.present == [0, 2]
    assert said == ["Client 1 is left out of the run: switched off."]


@pytest.mark.parametrize("answer", [{"x": 10**400}, {"x": "\ud800"}, [1], {"x": {1: 2}}, {"x": object()}])
def test_a_reply_of_any_kind_makes_its_client_missing_and_nothing_else(answer):
    fed = Scripted({0: FINE, 1: answer, 2: FINE}, *[{1: answer}] * 9)
    assert list(fed.ask_until_all_reply(double, {})) == [0, 2]
    assert list(fed.dropped) == [1]


def test_clients_that_differ_from_a_clear_majority_are_left_out():
    fed = Scripted(clients=5)
    replies = {i: {"shape": [3]} for i in range(5)} | {1: {"shape": [10**6]}}
    assert list(fed.keep_majority(replies)) == [0, 2, 3, 4]
    assert "is not the others' [3]" in fed.dropped[1]
    assert len(Scripted().keep_majority({0: {"shape": [1]}, 1: {"shape": [2]}, 2: {"shape": [2]}})) == 3
    undecided = {client: {"shape": [1 if client < 3 else 2]} for client in range(5)}
    assert len(federation(5).keep_majority(undecided)) == 5, "three of five are no two thirds"
