"""Messages come back as they were sent, and nothing else is taken for one."""

from pathlib import Path

import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core import FedkinError
from fedkin.engines.flower_engine.transport import TYPE, content, read
from fedkin.engines.site import Request, Site
from nodes import nodes_of

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


def test_a_payload_that_is_no_dictionary_is_refused():
    with pytest.raises(FedkinError, match=r"^The payload is not a dictionary\.$"):
        read(content([1, 2])).tree()  # type: ignore[arg-type]


def test_a_message_of_another_kind_is_refused_by_the_site(tmp_path: Path):
    nodes = nodes_of([Site("a", tmp_path, torch.ones(4, 3))])
    request = Request("f00d", 0, 5, 1, 0, "fedkin.data.statistics.moments").to_json()
    numbers = nodes.push_messages([Message(content(kind="walk", request=request), nodes.node(0), TYPE)])
    (reply,) = nodes.pull_messages(list(numbers))
    assert read(reply.content).text("refusal") == "Messages of kind 'walk' are not known here."


def test_a_payload_beyond_the_memory_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedkin.engines.flower_engine.transport.room", lambda: 1000)
    with pytest.raises(FedkinError, match="memory"):
        read(content({"x": torch.zeros(1000)}))
