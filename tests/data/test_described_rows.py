"""Rows that a client has described before are known again, whatever else its file holds."""

import pandas as pd
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core import Client
from fedkin.core.method import NEW
from fedkin.data.inputs import client_data
from fedkin.data.preparation import DESCRIBED, carried_over, find_new_rows, new_rows, prepare, remember_rows
from fedkin.engines.local import LocalFederation

ROWS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), min_size=3, max_size=20)


def client_of(frame: pd.DataFrame, before: Client | None = None) -> Client:
    """Return a client with a table, at the start of an update if it was there `before`."""
    state = {} if before is None else carried_over(before.state)
    return Client(0, torch.zeros(len(frame), 1), state=state, table=client_data(frame, "frame").table)


def described(frame: pd.DataFrame) -> Client:
    """Return a client that has described all rows of a table."""
    client = client_of(frame)
    prepare(LocalFederation([client], 0))
    remember_rows(client)
    return client


def frame_of(rows: list[tuple[int, str]]) -> pd.DataFrame:
    return pd.DataFrame({"size": [float(size) for size, _ in rows], "kind": [kind for _, kind in rows]})


@given(ROWS, ROWS, st.randoms())
def test_each_row_is_new_once_in_any_order(first: list[tuple[int, str]], more: list[tuple[int, str]], random) -> None:
    first = [*first, (0, "a"), (5, "b")]
    both = [*first, *more, (9, "d")]
    random.shuffle(both)
    client = client_of(frame_of(both), described(frame_of(first)))
    assert not find_new_rows(client)
    assert int(client.state[NEW].sum()) == len(more) + 1
    remember_rows(client)
    assert len(client.state[DESCRIBED].unique(dim=0)) == len(both)


def test_rows_with_ids_may_change_and_many_changes_are_noticed() -> None:
    frame = pd.DataFrame({"size": range(20), "id": [f"p{i}" for i in range(20)]}, dtype=object).infer_objects()
    before = described(frame)
    for changed in (4, 5):
        other = frame.assign(size=[size + 100 * (row < changed) for row, size in enumerate(frame["size"])])
        client = client_of(other, before)
        assert find_new_rows(client, least=5) == (changed >= 5)
        assert not client.state[NEW].any()
    alone = client_of(frame.assign(id=[f"q{i}" for i in range(20)]), before)
    assert not find_new_rows(alone, least=5), "new rows alone: those of before still count"
    assert len(new_rows(alone)) == 20
    assert find_new_rows(Client(0, torch.ones(3, 2))), "whoever remembers nothing"
