"""Messages come back as they were sent, and nothing else is taken for one."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from hypothesis import given
from hypothesis import strategies as st

import app_nodes
from fedkin.core import Client, FedkinError, task
from fedkin.engines.flower_engine.grid import FlowerFederation, Roster
from fedkin.engines.flower_engine.messages import TYPE, content, poll, push, read
from fedkin.engines.site import Request, Site
from nodes import RUN, Nodes, nodes_of, sites_of

FACTS = st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.integers(-9, 9) | st.floats(-1, 1), max_size=3)


ONE = Array("uint8", (1,), "safetensors", b"x")


@given(FACTS, st.none() | st.integers(0, 5))
def test_what_was_put_in_is_read_again(facts, size):
    payload = None if size is None else {"x": torch.arange(size), "more": [1, "two", None]}
    found = read(content(payload, **facts))
    assert found.facts == facts
    assert all(found.text(name) == (value if isinstance(value, str) else "") for name, value in facts.items())
    assert found.tree().keys() == (payload or {}).keys()
    if payload is not None:
        assert torch.equal(found.tree()["x"], payload["x"])
        assert found.tree()["more"] == payload["more"]


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        ({}, r"^It is not one of fedkin's messages\.$"),
        ({"fedkin": ArrayRecord({"payload": ONE})}, r"^It is not one of fedkin's messages\.$"),
        ({"fedkin": ConfigRecord({}), "payload": ConfigRecord({})}, r"^It is not one of fedkin's messages\.$"),
        ({"fedkin": ConfigRecord({}), "payload": ArrayRecord({"other": ONE})}, "nothing else is ever opened"),
        ({"fedkin": ConfigRecord({}), "payload": ArrayRecord({"payload": ONE, "more": ONE})}, "nothing else is ever"),
    ],
    ids=["nothing", "arrays for facts", "facts for arrays", "another name", "two arrays"],
)
def test_what_is_no_message_is_refused(records, sentence):
    with pytest.raises(FedkinError, match=sentence):
        read(RecordDict(records))


def test_a_message_of_another_kind_is_refused_by_the_site(tmp_path: Path) -> None:
    nodes = nodes_of([Site("a", tmp_path, torch.ones(4, 3))])
    request = Request("f00d", 0, 5, 1, 0, "fedkin.data.columns.moments").to_json()
    numbers = nodes.push_messages([Message(content(kind="walk", request=request), nodes.node(0), TYPE)])
    (reply,) = nodes.pull_messages(list(numbers))
    assert read(reply.content).text("refusal") == "Messages of kind 'walk' are not known here."
    with pytest.raises(FedkinError, match="not a dictionary"):
        read(content([1, 2])).tree()  # type: ignore[arg-type]


def test_a_payload_beyond_the_memory_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedkin.engines.flower_engine.messages.room", lambda: 1000)
    with pytest.raises(FedkinError, match="memory"):
        read(content({"x": torch.zeros(1000)}))


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


@task
def echo(clients, payloads):
    return [{"number": payload["number"]} for payload in payloads]


class Pace:
    """A federation of four sites, of which some are `slow`: their replies are held back."""

    def __init__(self, folder: Path, timeout: float = 0.4, **options: Any) -> None:
        clients = [Client(i, torch.rand(3, 2)) for i in range(4)]
        self.grid: Nodes = nodes_of(sites_of(clients, folder))
        self.slow: set[int] = set()
        pull = self.grid.pull_messages

        def held(ids: Iterable[str]) -> Iterable[Message]:
            slow = {m.metadata.message_id for m in self.grid.sent if self._partition(m) in self.slow}
            return pull([number for number in ids if number not in slow])

        self.grid.pull_messages = held  # type: ignore[method-assign]
        roster = Roster(self.grid)
        roster.gather(4, 5)
        self.fed = FlowerFederation(roster, RUN, timeout=timeout, **options)

    def _partition(self, message: Message) -> int:
        return self.grid.partition(message.metadata.dst_node_id)

    def ask(self, number: int, what: Any = echo, slow: Iterable[int] = ()) -> dict[int, Any]:
        self.slow = set(slow)
        return self.fed.ask(what, self.fed.all(number=number))

    def asked(self, before: int) -> list[int]:
        """Sites that were sent messages since there were so many."""
        return [self._partition(message) for message in self.grid.sent[before:]]


def numbers(replies: dict[int, Any]) -> dict[int, int]:
    return {client: reply["number"] for client, reply in replies.items()}


def test_a_round_closes_when_its_time_is_over(tmp_path):
    pace = Pace(tmp_path)
    assert numbers(pace.ask(1, slow=[1, 2])) == {0: 1, 3: 1}
    assert pace.fed.missing == dict.fromkeys((1, 2), "no reply in 0.4 seconds")
    before = len(pace.grid.sent)
    assert numbers(pace.ask(2)) == dict.fromkeys(range(4), 2)  # a late reply to the first question is none to this
    assert pace.asked(before) == [0, 1, 2, 3]
