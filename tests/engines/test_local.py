import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core import Client, task
from fedkin.core.device import device
from fedkin.engines.local import LocalFederation, _Pace


@task
def draw(clients, payloads):
    for client in clients:
        client.state["asked"] = client.state.get("asked", torch.tensor(0)) + 1
    return [{"x": torch.rand(3, generator=client.rng), "threads": torch.get_num_threads()} for client in clients]


@task
def place(clients, payloads):
    return [{"device": str(device())} for _ in clients]


def clients(n=7, order=None):
    return [Client(i, torch.zeros(2, 2)) for i in (order or range(n))]


def replies(fed, exchanges=3):
    return [{i: reply["x"].tolist() for i, reply in fed.ask(draw, fed.all()).items()} for _ in range(exchanges)]


@given(st.integers(1, 9), st.integers(1, 4), st.permutations(range(7)))
def test_chunks_workers_and_order_of_clients_change_nothing(chunk, workers, order):
    assert replies(LocalFederation(clients(order=order), 3, chunk, workers)) == replies(LocalFederation(clients(), 3))


@pytest.mark.parametrize(("together", "threads"), [(0.012, 4), (0.03, 4), (0.04, 1)])
def test_one_thread_goes_on_where_four_wait_for_each_other(together, threads):
    pace = _Pace(None, 4, try_one_thread=True)
    at_work = []
    for _ in range(3):
        pace.begin(40)
        for _ in range(20):
            at_work.append(pace.workers)
            pace.learn(2, 2 * (0.01 if pace.workers == 1 else together))
            pace.replied(2)
    assert at_work == [4] * 20 + [1] * 2 + [4] * 18 + [threads] * 20


def test_tasks_compute_on_the_device_that_the_federation_was_made_on():
    fed = LocalFederation(clients(), workers=2, device=torch.device("meta"))
    places = [each.ask(place, each.all()) for each in (fed, LocalFederation(clients(), workers=2))]
    assert [{reply["device"] for reply in replies.values()} for replies in places] == [{"meta"}, {"cpu"}]


def test_failures_are_lost_and_named():
    fed = LocalFederation(clients(3), failures=[(2, 1)])
    assert [list(step) for step in replies(fed)] == [[0, 1, 2], [0, 2], [0, 1, 2]]
    assert fed.clients[1].state["asked"] == 2


def test_tasks_run_single_threaded_and_torch_gets_its_threads_back():
    threads = torch.get_num_threads()
    fed = LocalFederation(clients(3))
    assert {reply["threads"] for reply in fed.ask(draw, fed.all()).values()} == {1}
    assert torch.get_num_threads() == threads


@task
def count(clients, payloads):
    for client in clients:
        if client.id == payloads[0].get("fails"):
            raise RuntimeError("a bug in a task")
        time.sleep(payloads[0].get("seconds", 0.0))
        client.state["done"] = torch.tensor(1)
    return [{"x": torch.rand(3, generator=client.rng)} for client in clients]


def done(fed):
    return sum("done" in client.state for client in fed.clients.values())


@pytest.mark.parametrize(("chunk", "workers"), [(1, 1), (2, 3), (5, 2)])
def test_replies_do_not_pile_up(chunk, workers):
    fed = LocalFederation(clients(80), chunk=chunk, workers=workers)
    most = 2 * workers * chunk
    read = 0
    for read, (client, _) in enumerate(fed.stream(count, fed.all()), 1):
        assert client == read - 1
        if read % 20 == 1:
            time.sleep(0.05)  # time enough for the workers to do whatever they may
        assert done(fed) <= read + most
    assert read == done(fed) == 80


def test_after_a_bug_in_a_task_nothing_goes_on_behind_and_the_next_exchange_is_sound():
    fed = LocalFederation(clients(40), seed=3, chunk=1, workers=3)
    with pytest.raises(RuntimeError, match="a bug in a task"):
        fed.ask(count, fed.all(fails=2, seconds=0.01))
    before = done(fed)
    time.sleep(0.05)
    assert done(fed) == before < 40
    other = LocalFederation(clients(40), seed=3)
    other.exchange = 1
    found, expected = fed.ask(count, fed.all()), other.ask(count, other.all())
    assert list(found) == list(range(40))
    assert all(torch.equal(found[i]["x"], expected[i]["x"]) for i in expected)


def test_who_is_away_does_nothing_and_changes_nothing_for_others():
    reported = []
    fed, other = (LocalFederation(clients(5), 3, on_progress=lambda *parts: reported.append(parts)) for _ in range(2))
    fed.leave({0, 3})
    everyone = other.all()
    found, expected = fed.ask(draw, everyone), other.ask(draw, everyone)
    assert list(found) == [1, 2, 4]
    assert all(torch.equal(found[i]["x"], expected[i]["x"]) for i in found)
    assert "asked" not in fed.clients[0].state
    assert (3, 3) in reported
    fed.join(fed.ids)
    assert list(fed.ask(draw, everyone)) == [0, 1, 2, 3, 4]
