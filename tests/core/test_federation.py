import pytest
import torch

from fedkin.core import Client, Task, task
from fedkin.core.payload import payload_bytes
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


def test_replies_come_back_by_id_in_order():
    replies = federation().ask(double, {2: {"add": 1.0}, 0: {"add": 0.0}})
    assert list(replies) == [0, 2]
    assert replies[2]["x"] == 25.0


def test_every_byte_is_counted_by_direction_and_a_shared_payload_for_everyone():
    fed = federation()
    payload = {"add": torch.zeros(100)}
    fed.ask(double, fed.all(**payload))
    assert fed.traffic.sent == 4 * payload_bytes(payload)
    assert fed.traffic.received == 4 * payload_bytes({"x": torch.zeros(100)})


def test_useless_replies_are_missing_by_name():
    fed = federation()
    assert list(fed.ask(misbehave, fed.all(), {"x": (3,)})) == [0]
    assert fed.missing == {
        1: "'x' is not finite",
        2: "'x' has shape (2,) where (3,) was expected",
        3: "'x' is absent",
    }


def test_shapes_may_depend_on_the_client():
    fed = federation()
    assert list(fed.ask(misbehave, {0: {}, 2: {}}, lambda client: {"x": (3 if client == 0 else 2,)})) == [0, 2]


def test_a_task_is_found_by_its_name():
    assert Task.named(double.name) is double
    assert double.name.endswith(".double")


def test_the_servers_generators_depend_on_seed_and_path():
    draws = {(seed, path): torch.rand(3, generator=federation(seed=seed).rng(path)) for seed in (0, 1) for path in "ab"}
    assert torch.equal(draws[0, "a"], torch.rand(3, generator=federation(seed=0).rng("a")))
    assert len({tuple(draw.tolist()) for draw in draws.values()}) == 4


def test_two_clients_with_one_id_are_refused():
    with pytest.raises(ValueError, match="same id"):
        LocalFederation([Client(0, torch.zeros(1, 1)), Client(0, torch.zeros(1, 1))])
