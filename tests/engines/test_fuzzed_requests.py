"""Requests that are damaged: a site refuses each in a sentence, or what it declares to take is done."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

import crossed
from declared import fits
from fedkin.core import FedkinError, Task
from fedkin.core.client import Column, Kind, Table
from fedkin.core.errors import RefusalError
from fedkin.core.payload import failure_of
from fedkin.core.tasks import _TASKS
from fedkin.data.columns import Schema, column_sums, columns_of, moments, shapes, table_columns
from fedkin.data.encoding import Encoding, Mode
from fedkin.data.preparation import arrange_columns, encode, restore_preparation
from fedkin.data.profile import cluster_cells
from fedkin.engines.site import Request, Site
from fedkin.privacy.budget import Account
from fuzzing import CASES, damaged_bytes, damaged_tree, fuzzed
from nodes import federation, nodes_of

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
        reply, _ = site.answer(Request("ab", client.id, 0, 1, 0, name, classes), payload)
    except Exception as error:
        sentence = failure_of(error)
        assert not [cell for cell in _cells(client.x) if cell in sentence]
        return _kind(name, error)
    assert not [cell for cell in _cells(client.x) if any(cell in text for text in _texts(reply))]
    return "done"


def _cells(x: Tensor) -> set[str]:
    """Texts by which numbers would be recognised, of those with several digits."""
    return {text[:6] for text in map("{:.15g}".format, x.flatten().tolist()) if len(text) > 6}


def _texts(value: Any) -> Iterator[str]:
    """All texts in a reply, names of entries among them."""
    if isinstance(value, Mapping):
        yield from map(str, value)
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


_COLUMNS = (
    Column("patient", "category", tuple(f"cell-{at:02d}" for at in range(40))),
    Column("ward", "category", ("north", "rare-ward")),
    Column("age"),
    Column("smoker", "boolean", ("no", "yes")),
    Column("pain", "ordinal", ("none", "some", "much")),
)
_KINDS: tuple[Kind, ...] = get_args(Kind)


def _patients() -> Table:
    """A table whose cells are recognised: only "north" is in enough rows for its name to leave."""
    rows = torch.arange(40)
    columns = [rows, rows < 3, 1234.5 + 7.25 * rows, rows % 2, rows % 3]
    return Table(_COLUMNS, torch.stack([column.double() for column in columns], 1), "none")


_NAMES = st.sampled_from([column.name for column in _COLUMNS])
_LEVELS = st.lists(st.sampled_from(["none", "north", "no", "yes", "cell-00"]), unique=True, max_size=4)
_SCHEMAS = st.lists(
    st.tuples(_NAMES, st.sampled_from(_KINDS), _LEVELS).map(list), min_size=1, unique_by=lambda own: own[0]
)


def _encoding(columns: list[Any], mode: Mode) -> dict[str, Any]:
    """An encoding of columns by arbitrary kinds and categories, as a hostile server sends it."""
    schema, count = Schema(columns_of({"columns": columns})), len(columns)
    no, zeros = torch.zeros(count, dtype=torch.bool), torch.zeros(count, dtype=torch.float64)
    limits = torch.stack([zeros - 1e9, zeros + 1e9, zeros, zeros + 1])
    draft = Encoding(mode, zeros, zeros, limits, schema=schema, fill=zeros, other=no)
    width = draft.blocks[-1][2]
    return replace(draft, mean=torch.zeros(width).double(), scale=torch.ones(width).double()).tree()


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_no_answer_of_a_site_holds_a_cell(epsilon: float | None, tmp_path: Path) -> None:
    """Whatever kinds and categories a server says that columns have, at a site with a budget and one without."""
    table = _patients()
    site = Site("a", tmp_path, table.values.float(), features=table.names, table=table, prepare=restore_preparation)
    if epsilon is not None:
        site = replace(site, account=Account(tmp_path, epsilon, 1e-5))
    secrets = ["cell-", "rare", *(text for age in table.of("age").tolist() for text in (f"{age:g}", f"{age:.0f}"))]
    fed, ends = federation(nodes_of([site])), Counter[str]()
    tasks = [arrange_columns, encode, moments, table_columns, shapes, column_sums, cluster_cells]
    payloads = {
        name: own.payload for kind in ("tables", "tables of numbers") for name, own in crossed.crossings(kind).items()
    }

    @fuzzed(600, 2)
    @given(st.sampled_from(tasks), _SCHEMAS, st.sampled_from(get_args(Mode)), st.integers(0, 9), st.data())
    def check(task: Task, columns: list[Any], mode: Mode, least: int, data: st.DataObject) -> None:
        payload = dict(payloads.get(task.name, {}))
        payload |= {"encoding": _encoding(columns, mode)} if "encoding" in payload else {}
        payload |= {"columns": columns} if "columns" in payload else {}
        payload |= {"min_members": least} if task in (moments, table_columns) else {}
        if data.draw(st.booleans()) and payload:
            payload = data.draw(damaged_tree(payload))
        fed.run = f"{ends.total():x}"
        ((_, answer),) = fed.deliver(task, {0: payload})
        ends["refused" if isinstance(answer, str) else "done"] += 1
        asked = {*_texts(payload)}
        said = [answer] if isinstance(answer, str) else [text for text in _texts(answer) if text not in asked]
        assert not [(secret, text) for secret in secrets for text in said if secret in text]

    check()
    assert min(ends["refused"], ends["done"]) > 20


def _kind(name: str, error: Exception) -> str:
    """Which of `_end` an error is; its sentence crosses to the server."""
    sentence = failure_of(error)
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
    text = Request("ab", 1, 2, 3, 0, "fedkin.methods.clients.client_method.train", ["a", "b"]).to_json().encode()
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
