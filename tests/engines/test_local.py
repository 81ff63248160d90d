import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core import Client, task
from fedkin.engines.local import LocalFederation


@task
def draw(clients, payloads):
    for client in clients:
        client.state["asked"] = client.state.get("asked", torch.tensor(0)) + 1
    return [{"x": torch.rand(3, generator=client.rng), "threads": torch.get_num_threads()} for client in clients]


@task
def fail(clients, payloads):
    raise RuntimeError("a bug in a task")


def clients(n=7, order=None):
    return [Client(i, torch.zeros(2, 2)) for i in (order or range(n))]


def replies(fed, exchanges=3):
    return [{i: reply["x"].tolist() for i, reply in fed.ask(draw, fed.all()).items()} for _ in range(exchanges)]


@given(st.integers(1, 9), st.integers(1, 4), st.permutations(range(7)))
def test_chunks_workers_and_order_of_clients_change_nothing(chunk, workers, order):
    assert replies(LocalFederation(clients(order=order), 3, chunk, workers)) == replies(LocalFederation(clients(), 3))


def test_generators_depend_on_seed_client_and_exchange():
    drawn = [tuple(x) for seed in (0, 1) for step in replies(LocalFederation(clients(), seed)) for x in step.values()]
    assert len(set(drawn)) == 2 * 3 * 7


def test_who_else_is_asked_changes_nothing():
    alone = LocalFederation(clients(), 3).ask(draw, {4: {}})
    together = LocalFederation(clients(), 3)
    assert torch.equal(alone[4]["x"], together.ask(draw, together.all())[4]["x"])


def test_failures_are_lost_and_named():
    fed = LocalFederation(clients(3), failures=[(2, 1)])
    assert [list(step) for step in replies(fed)] == [[0, 1, 2], [0, 2], [0, 1, 2]]
    assert fed.clients[1].state["asked"] == 2


def test_the_drop_rate_is_kept_and_derived():
    fed = LocalFederation(clients(50), seed=1, drop_rate=0.3)
    answered = [list(step) for step in replies(fed, 20)]
    assert 0.65 < sum(map(len, answered)) / 1000 < 0.75
    assert answered == [list(step) for step in replies(LocalFederation(clients(50), seed=1, drop_rate=0.3), 20)]


def test_tasks_run_single_threaded_and_torch_gets_its_threads_back():
    threads = torch.get_num_threads()
    fed = LocalFederation(clients(3))
    assert {reply["threads"] for reply in fed.ask(draw, fed.all()).values()} == {1}
    assert torch.get_num_threads() == threads


def test_a_bug_in_a_task_is_not_taken_for_a_missing_client():
    fed = LocalFederation(clients(3))
    with pytest.raises(RuntimeError, match="a bug in a task"):
        fed.ask(fail, fed.all())
