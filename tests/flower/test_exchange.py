"""Messages and their replies: whoever fails is named with a reason, and nobody waits for three seconds."""

import time

import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.clientapp import ClientApp

import app_nodes
from fedkin.flower.grid_federation import RAISED, exchange


@pytest.fixture
def grid() -> app_nodes.Fleet:
    app = ClientApp()

    @app.query()
    def echo(message, context):
        if message.content["config"]["say"] == "fail":
            raise ValueError("what a pity\nwith a second line")
        return Message(message.content, reply_to=message)

    return app_nodes.Fleet(app, 4)


def messages(grid: app_nodes.Fleet, words: list[str]) -> dict[int, Message]:
    contents = [RecordDict({"config": ConfigRecord({"say": word})}) for word in words]
    return {at: Message(content, grid.node(at), "query") for at, content in enumerate(contents)}


def test_replies_come_back_by_key(grid):
    found = exchange(grid, messages(grid, ["a", "b", "c"]), 5)
    assert [found[at]["config"]["say"] for at in range(3)] == ["a", "b", "c"]
    assert grid.exchanges == 1


def test_who_fails_is_reported_in_one_line(grid):
    grid.away = {2}
    grid.troubles = lambda message, partition: {1: "lost", 3: Error(5, None)}.get(partition)
    began = time.monotonic()
    found = exchange(grid, messages(grid, ["fail", "b", "c", "d"]), 0.3)
    assert found[0] == "error 2: <class 'ValueError'>:<'what a pity with a second line'>"
    assert found[0].startswith(RAISED)
    assert found[1] == "no reply in 0.3 seconds"
    assert found[2] == "the message could not be sent"
    assert found[3] == "error 5: no reason given"
    assert not found[3].startswith(RAISED)
    assert 0.3 <= time.monotonic() - began < 3


def test_nothing_to_send_is_no_exchange(grid):
    assert exchange(grid, {}, 5) == {}
    assert grid.exchanges == 0


def test_a_reply_that_takes_a_while_is_waited_for(grid):
    late = time.monotonic() + 0.4
    pull = grid.pull_messages
    grid.pull_messages = lambda numbers: pull(numbers) if time.monotonic() > late else []
    assert exchange(grid, messages(grid, ["a"]), 5)[0]["config"]["say"] == "a"
    assert time.monotonic() - late < 2.5  # Flower itself would look again after three seconds


IN_RAY = (
    "<class 'ray.exceptions.RayTaskError(ClientAppException)'>:<'\x1b[36mray::ClientAppActor.run()\x1b[39m (pid=7835)\n"
    '    ^^^^^^^^^^^^\n  File "/a/ray_actor.py", line 65, in run\n    raise ClientAppException(str(ex)) from ex\n'
    "flwr.clientapp.client_app.ClientAppException: \nException ClientAppException occurred. Message: No query function "
    "registered with name 'fedkin''>"
)


def test_of_an_error_in_a_simulation_the_apps_own_message_is_reported(grid):
    grid.troubles = lambda message, partition: Error(2, IN_RAY if partition == 0 else "\x1b[31mbad\x1b[0m")
    found = exchange(grid, messages(grid, ["a", "b"]), 5)
    assert found == {0: "error 2: No query function registered with name 'fedkin'", 1: "error 2: bad"}
