"""Messages are pushed by key, and polled for until each has its reply or the time is up."""

import time

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

import app_nodes
from fedkin.engines.flower_engine.transport import poll, push


@pytest.fixture
def grid() -> app_nodes.Fleet:
    app = ClientApp()

    @app.query()
    def echo(message, context):
        return Message(message.content, reply_to=message)

    return app_nodes.Fleet(app, 3)


def messages(grid: app_nodes.Fleet, count: int) -> dict[str, Message]:
    content = [RecordDict({"config": ConfigRecord({"number": number})}) for number in range(count)]
    return {f"key {number}": Message(content[number], grid.node(number), "query") for number in range(count)}


def test_every_reply_comes_with_its_key_and_what_has_none_is_left(grid):
    grid.troubles = lambda message, partition: "lost" if partition == 1 else None
    waiting = push(grid, messages(grid, 3))
    began = time.monotonic()
    found = {key: reply.content["config"]["number"] for key, reply in poll(grid, waiting, 0.3)}
    assert found == {"key 0": 0, "key 2": 2}
    assert list(waiting.values()) == ["key 1"]
    assert 0.3 <= time.monotonic() - began < 2


def test_what_is_sent_between_polls_is_waited_for_too(grid):
    grid.troubles = lambda message, partition: "lost"
    waiting, arrived = push(grid, messages(grid, 1)), []

    def between(any_arrived: bool) -> None:
        arrived.append(any_arrived)
        if len(arrived) == 2:
            grid.troubles = None
            waiting.clear()
            waiting.update(push(grid, messages(grid, 2)))

    assert [key for key, _ in poll(grid, waiting, 5, between)] == ["key 0", "key 1"]
    assert arrived == [False, False]
    assert waiting == {}
