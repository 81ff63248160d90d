"""Requests that are damaged: a site refuses each in a sentence, or what it declares to take is done."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import crossed
from declared import fits
from fedkin.core import FedkinError
from fedkin.core.errors import RefusalError
from fedkin.core.task import _TASKS
from fedkin.engines.site import Site
from fedkin.engines.site_request import Request
from fuzzing import CASES, damaged_bytes, damaged_tree, fuzzed

_WORK = 64
"""Greatest whole number that damage may add to a request that is done; more may be steps or epochs, for which a client
takes its time."""


@pytest.mark.parametrize("source", crossed.tried())
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_a_damaged_request_is_refused_or_done(source: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    crossings, ends = list(crossed.crossings(source).values()), Counter[str]()

    @fuzzed(15, len(crossed.tried()))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        crossing = data.draw(st.sampled_from(crossings))
        payload = data.draw(damaged_tree(crossing.payload))
        if crossing.task.objection(payload) is None:
            assert fits(payload, crossing.task.takes)
            assume(max({*_numbers(payload)} - {*_numbers(crossing.payload)}, default=0) <= _WORK)
        ends[_end(crossing, payload, tmp_path / str(ends.total()))] += 1

    check()
    assert ends["refused"] > ends.total() / 2
    assert "allocat" not in caplog.text


def _end(crossing: crossed.Crossing, payload: dict[str, Any], folder: Path) -> str:
    """What comes of a request: "refused" before the task is done, "failed" in it, or "done"."""
    client, name = crossing.client, crossing.task.name
    classes = [] if client.y is None else ["0", "1"]
    more: dict[str, Any] = {"begins_with": client.state, "simulated": True, "table": client.table}
    more["packages"] = ("fedkin", "hostile")  # whose network some of the requests name
    site = Site("a", folder, client.x, client.y, classes, **more)
    try:
        site.answer(Request("ab", client.id, 0, 1, 0, name, classes), payload)
    except FedkinError as error:
        return _kind(name, error)
    return "done"


def _kind(name: str, error: FedkinError) -> str:
    """Which of `_end` an error is; its sentence crosses to the server."""
    sentence = str(error)
    assert 0 < len(sentence.encode()) < 1000
    if not isinstance(error, RefusalError):
        return "failed"
    named = f"Task '{name}' is not done with this request: '"
    assert sentence.startswith(named) or (
        "is not from fedkin or hostile, so this client does not run it; a site's own file lists" in sentence
    )
    return "refused"


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item)
    elif type(value) is int:
        yield value


@pytest.mark.skipif(not CASES, reason="all runs are made with FEDKIN_FUZZ only")
def test_every_task_of_the_library_is_among_the_requests() -> None:
    sent = {name for source in crossed.tried() for name in crossed.crossings(source)}
    assert [name for name in sorted(_TASKS) if name.startswith("fedkin.") and name not in sent] == []


def test_a_damaged_text_of_a_request_is_refused_or_a_request() -> None:
    text = Request("ab", 1, 2, 3, 0, "fedkin.methods.clients.client_tasks.train", ["a", "b"]).to_json().encode()
    ends = Counter[str]()

    @fuzzed(100)
    @given(damaged_bytes(text))
    def check(content: bytes) -> None:
        try:
            request = Request.from_json(content.decode("utf-8", "replace"))
        except FedkinError:
            ends["refused"] += 1
        else:
            ends["read"] += 1
            assert request.client >= 0
            assert request.run.isalnum()

    check()
    assert ends["refused"] > 20
    assert ends["read"]
