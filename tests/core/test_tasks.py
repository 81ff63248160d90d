"""Tasks by the function that does them."""

import pytest
import torch

from fedkin.core import Client, FedkinError, Payload, client_task, task
from fedkin.core.payload import is_count
from fedkin.engines.local import LocalFederation


@client_task(takes={"more": is_count}, holds={"samples": is_count}, accounted=True)
def count(client: Client, payload: Payload) -> Payload:
    """Count the samples."""
    return {"samples": len(client) + payload["more"]}


@client_task
def nothing(client: Client, payload: Payload) -> Payload:
    return {}


def test_a_client_task_is_done_by_many_clients() -> None:
    clients = [Client(i, torch.zeros(i + 1, 2)) for i in range(3)]
    assert count.run(clients, [{"more": 0}, {"more": 10}, {"more": 20}]) == [
        {"samples": 1}, {"samples": 12}, {"samples": 23},
    ]  # fmt: skip
    assert nothing.run(clients, [{}] * 3) == [{}] * 3
    with pytest.raises(ValueError, match="shorter"):
        nothing.run(clients, [{}])


def test_what_is_accounted_for_says_what_it_takes() -> None:
    with pytest.raises(ValueError, match="must declare its payload"):
        client_task(accounted=True)(nothing_at_all)


def nothing_at_all(client: Client, payload: Payload) -> Payload:
    return {}


@task
def reply_for_one(clients: list[Client], payloads: list[Payload]) -> list[Payload]:
    return [{}]


def test_a_task_owes_each_client_a_reply() -> None:
    fed = LocalFederation([Client(i, torch.zeros(2, 2)) for i in range(3)], chunk=3)
    with pytest.raises(FedkinError, match="one reply per client, 3 here"):
        fed.ask(reply_for_one, fed.all())
