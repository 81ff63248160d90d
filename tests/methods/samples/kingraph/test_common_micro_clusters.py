"""Micro-clusters common to all clients: the same however samples are spread, none below the minimum."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from fedkin.clustering.k_means import nearest_centroids
from fedkin.core import Client, FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.kingraph.common_micro_clusters import (
    common_micro_clusters,
    send_cell_moments,
    send_counts,
    send_feature_sums,
    send_neighbour_scatter,
)
from fedkin.methods.samples.kingraph.kingraph import KinGraphMethod
from fedkin.secure_aggregation.sums import ClientSums, HiddenSums, secure

NONE = torch.zeros(0, dtype=torch.int64)


class Elsewhere(LocalFederation):
    """Federation that hides sums, as those do whose clients are elsewhere."""

    def sums(self) -> ClientSums:
        return HiddenSums(self) if len(self.present) >= 3 else ClientSums(self)


def raw(d: int) -> dict[str, Any]:
    """The space of columns as they are."""
    return {"features": "raw", "projection": None, "bound": None, "mean": torch.zeros(d), "directions": torch.eye(d)}


def partitioned(x: torch.Tensor, clients: int) -> list[Client]:
    return [Client(i, x[i::clients]) for i in range(clients)]


def found(x: torch.Tensor, clients: int, least: int = 5, most: int = 100) -> tuple[torch.Tensor, torch.Tensor]:
    both = common_micro_clusters(ClientSums(LocalFederation(partitioned(x, clients), 0)), raw(x.shape[1]), least, most)
    assert both is not None
    return both


def blobs(n: int = 300, d: int = 3) -> torch.Tensor:
    rng = torch.Generator().manual_seed(0)
    return torch.randn(n, d, generator=rng) / 4 + torch.randint(3, (n, 1), generator=rng)


@pytest.mark.parametrize("clients", [2, 3, 20])
def test_micro_clusters_do_not_depend_on_how_samples_are_spread(clients: int):
    x = blobs()
    (alone, counts), (centroids, others) = found(x, 1), found(x, clients)
    assert len(alone) > 30
    assert torch.equal(counts, others)
    assert torch.allclose(alone, centroids, atol=1e-4)


@settings(deadline=None, max_examples=20)
@given(
    n=st.integers(1, 200), d=st.integers(1, 4), least=st.integers(1, 9), most=st.integers(1, 30), seed=st.integers(0)
)
def test_all_samples_are_in_micro_clusters_of_at_least_the_minimum(n: int, d: int, least: int, most: int, seed: int):
    x = torch.randn(n, d, generator=torch.Generator().manual_seed(seed % 2**63)).round(decimals=1)
    centroids, counts = found(x, 1, least, most)
    assert centroids.shape == (len(counts), d)
    assert len(counts) <= most
    assert counts.sum() == (n if n >= least else 0)
    assert not len(counts) or counts.min() >= least


@pytest.mark.parametrize("centres", [3, 700])
def test_scatter_is_the_same_by_pairs_and_by_centres(centres: int):
    """Few centres are summed one by one, many a pair of components at a time, very many along the axes alone."""
    x = torch.randn(200, 60, generator=torch.Generator().manual_seed(1))
    start = torch.randn(centres, 60, generator=torch.Generator().manual_seed(2))
    full = torch.arange(centres)
    [reply] = send_cell_moments.run([Client(0, x)], [{"space": raw(60), "centres": start, "full": full}])
    labels = torch.cdist(x, start).argmin(1)
    apart = (x - start[labels]).double()
    products = apart[:, :, None] * apart[:, None]
    wanted = torch.zeros(centres, 60, 60, dtype=torch.float64).index_add_(0, labels, products)
    pairs = torch.tril_indices(60, 60) if centres == 3 else torch.arange(60).expand(2, 60)
    assert torch.allclose(reply["scatter"], wanted[:, pairs[0], pairs[1]], atol=1e-4)
    assert reply["counts"].tolist() == labels.bincount(minlength=centres).tolist()


def test_the_server_sees_sums_alone_where_three_take_part():
    fed, seen = Elsewhere(partitioned(blobs(), 3), 0), set()
    deliver = fed.deliver

    def watched(task: Any, payloads: Any) -> Any:
        for client, reply in deliver(task, payloads):
            seen.update(reply)
            yield client, reply

    fed.deliver = watched  # type: ignore[method-assign]
    assert common_micro_clusters(fed.sums(), raw(3), 5, 100) is not None
    assert seen == {"key", "publics", "shares", "masked", "own", "pairs"}


def digits(clients: int) -> tuple[list[Client], torch.Tensor]:
    x, y = load_digits(return_X_y=True)
    return partitioned(torch.from_numpy(x).float() / 16, clients), torch.cat(
        [torch.from_numpy(y)[i::clients] for i in range(clients)]
    )


def run(clients: list[Client], hidden: bool = False, **options: Any) -> tuple[list[Any], torch.Tensor]:
    fed, method = LocalFederation(clients, 0, **options), KinGraphMethod(common_micro_clusters=True)
    if hidden:
        secure(fed)
    state, records = method.init(fed), []
    while not state.finished:
        state, record = method.step(fed, state)
        records.append(record)
    return records, torch.cat([client.state["clusters"] for client in clients])


def test_with_secure_sums_the_run_is_the_same():
    clients, _ = digits(6)
    plain, clusters = run(clients)
    again, _ = digits(6)
    hidden, others = run(again, hidden=True)
    assert torch.equal(clusters, others)
    assert [record.values["sums"] for record in (plain[2], hidden[2])] == ["plain", "hidden"]


@pytest.mark.parametrize("clients", [5, 130])
def test_hidden_and_plain_sums_are_the_same_number(clients: int):
    """Groups of more than 64 clients and clients without a sample in a cell included."""
    x = blobs(20 * clients, 2)
    tasks: list[tuple[Any, dict[str, Any], dict[str, tuple[int, ...]]]] = [
        (send_neighbour_scatter, {"space": raw(2), "seed": 7}, {"samples": (1,), "scatter": (2, 2)}),
        (
            send_cell_moments,
            {"space": raw(2), "centres": x[:50].clone(), "full": torch.arange(9)},
            {"counts": (50,), "sums": (50, 2), "scatter": (9, 3)},
        ),
    ]
    for task, payload, wanted in tasks:
        plain, hidden = (kind(partitioned(x, clients), 0).sums() for kind in (LocalFederation, Elsewhere))
        assert [len(group) for group in plain.groups] == ([5] if clients == 5 else [44, 43, 43])
        one, other = plain.ask(task, payload, wanted), hidden.ask(task, payload, wanted)
        assert one is not None
        assert other is not None
        assert not plain.missing
        assert all(torch.equal(one[name], other[name]) for name in wanted)


def test_a_client_whose_numbers_are_beyond_a_sum_is_named():
    sums = ClientSums(LocalFederation([*partitioned(blobs(), 3), Client(3, torch.full((9, 3), 1e30))], 0))
    assert (
        sums.ask(send_cell_moments, {"space": raw(3), "centres": torch.zeros(1, 3), "full": NONE}, {"sums": (1, 3)})
        is not None
    )
    assert sums.answered == [0, 1, 2]
    assert "is not within" in sums.missing[3]


@pytest.mark.parametrize("task", [send_counts, send_cell_moments])
@pytest.mark.parametrize(
    "centres", [torch.full((2, 3), float("nan")), torch.zeros(2, 4), torch.zeros(2, 3, dtype=torch.float64), [[0.0]]]
)
def test_a_client_refuses_centres_that_are_none(task: Any, centres: Any):
    more = {"full": torch.tensor([1])} if task is send_cell_moments else {}
    assert task.objection({"space": raw(3), "centres": torch.zeros(2, 3), **more}) is None
    assert task.objection({"space": raw(3), "centres": centres, **more}) is not None


@pytest.mark.parametrize("full", [[2], [-1], [0, 7]])
def test_a_client_refuses_to_describe_centres_that_there_are_not(full: list[int]):
    payload = {"space": raw(3), "centres": torch.zeros(2, 3), "full": torch.tensor(full)}
    with pytest.raises(FedkinError, match="The payload names a centre that is not among 0 to 1"):
        send_cell_moments.run([Client(0, blobs(9))], [payload])


def test_scatter_is_sent_of_centres_with_samples_enough_for_two_alone(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[Any, Any, Any]] = []
    real = ClientSums.ask

    def ask(self: ClientSums, task: Any, payload: Any, wanted: Any) -> Any:
        reply = real(self, task, payload, wanted)
        asked.append((task, payload, reply))
        return reply

    monkeypatch.setattr(ClientSums, "ask", ask)
    _, counts = found(blobs(), 3)
    described = [(payload["full"], reply) for task, payload, reply in asked if task is send_cell_moments]
    assert len(described) > 4
    assert all((reply["counts"][full] >= 10).all() for full, reply in described)
    assert sum(len(full) for full, _ in described) < 2 * len(counts)
    assert [len(payload["full"]) for task, payload, _ in asked[-4:] if task is send_cell_moments] == [0, 0]


def test_with_two_of_three_left_the_clients_own_micro_clusters_are_used_and_it_is_said():
    clients, truth = digits(3)
    fed, method = (
        Elsewhere(clients, 0, failures=[(exchange, 0) for exchange in range(4, 99)]),
        KinGraphMethod(min_members=20),
    )
    state, records = method.init(fed), []
    assert state.common
    while not state.finished:
        state, record = method.step(fed, state)
        records.append(record)
    assert not state.common
    assert sum("Fewer than 3 clients answered" in record.values.get("warning", "") for record in records) == 1
    assert adjusted_rand_score(truth[599:], torch.cat([client.state["clusters"] for client in clients[1:]])) > 0.5


def test_a_clients_own_minimum_holds_for_its_part() -> None:
    x = blobs(90)
    client = Client(0, x, min_members=12)
    payload = {"space": raw(3), "centres": x[:9]}
    counts = nearest_centroids(x, x[:9]).bincount(minlength=9)
    assert 0 < (counts >= 12).sum() < (counts > 0).sum()
    expected = torch.where(counts >= 12, counts, 0)
    (sums,) = send_cell_moments.run([client], [{**payload, "full": NONE}])
    assert torch.equal(sums["counts"], expected)
    assert torch.equal(sums["sums"].abs().sum(1) > 0, expected > 0)
    assert torch.equal(send_counts.run([client], [payload])[0]["counts"], expected)
    few = Client(1, x[:11], min_members=12)
    assert send_neighbour_scatter.run([few], [{"space": raw(3), "seed": 0}])[0]["samples"] == 0
    clients = [few, *(Client(i, x, min_members=12) for i in (2, 3))]
    state = KinGraphMethod(common_micro_clusters=True).init(LocalFederation(clients, 0))
    assert [int(reply["count"]) for reply in send_feature_sums.run(clients, [{"space": state.space}] * 3)] == [
        0,
        90,
        90,
    ]
    with pytest.raises(FedkinError, match="All clients have 0 samples together"):
        KinGraphMethod(common_micro_clusters=True).step(
            LocalFederation([Client(i, x[:11], min_members=12) for i in range(3)], 0), state
        )
