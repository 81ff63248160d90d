"""The table by which clusters keep their numbers: what a site leaves out of it, and rows in another encoding."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core import Client
from fedkin.core.errors import RefusalError
from fedkin.data.encoding import Encoding
from fedkin.data.preparation import prepare
from fedkin.data.profile import count_transitions
from fedkin.engines.local import LocalFederation

RESULT = {"n_clusters": 3, "features": "raw", "centroids": torch.tensor([[0.0], [10.0], [20.0]])}
KFED = "fedkin.methods.samples.kfed:KFedMethod"


def table(client: Client, method: str = KFED) -> torch.Tensor:
    question = {"method": method, "result": RESULT, "encoding": Encoding.unchanged("none", (1,)).tree()}
    return count_transitions.run([client], [{**question, "before": 3, "after": 2, "min_members": 5}])[0]["table"]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=60))
def test_a_site_leaves_no_cell_of_few_rows_nor_one_that_subtraction_finds(rows: list[tuple[int, int]]) -> None:
    old, new = (torch.tensor(each) for each in zip(*rows, strict=True))
    clients = [Client(0, old[:, None] * 10.0, state={"clusters": new}) for _ in range(2)]
    clients[0].noise = torch.Generator()  # of a simulated one
    whole, sent = map(table, clients)
    assert torch.equal(whole, torch.stack([(old * 2 + new == cell).sum() for cell in range(6)]).view(3, 2))
    assert bool(((sent == 0) | (sent >= 5)).all())
    missing = new.bincount(minlength=2) - sent.sum(0)
    assert bool(((missing == 0) | (missing >= 5) | (sent.sum(0) == 0)).all())


def test_rows_are_assigned_as_the_earlier_result_had_them_whatever_their_scale_is_now() -> None:
    x = torch.tensor([[0.0], [10.0], [20.0], [21.0]])
    fed = LocalFederation([Client(i, x.clone()) for i in range(3)])
    prepare(fed)
    for client in fed.clients.values():
        assert float(client.x.abs().max()) < 2
        client.state["clusters"] = torch.tensor([0, 1, 1, 1])
        assert table(client).tolist() == [[1, 0], [0, 1], [0, 2]]


def test_what_is_no_method_is_not_called() -> None:
    with pytest.raises(RefusalError):
        table(Client(0, torch.zeros(3, 1), state={"clusters": torch.zeros(3, dtype=torch.int64)}), "fedkin.core:Client")
