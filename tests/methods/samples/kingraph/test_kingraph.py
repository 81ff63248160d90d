"""kin-graph: clusters that no client holds whole, of any shape, and what crosses for them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

import fedkin
from fedkin.clustering.metrics import adjusted_rand, pooled
from fedkin.core import Client, FedkinError
from fedkin.data.inputs import ClientFiles
from fedkin.data.options import TableOptions
from fedkin.data.preparation import prepare
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.kingraph.kingraph import KinGraphMethod
from fedkin.methods.samples.kingraph.kingraph_space import (
    client_points,
    described,
    receive_clusters,
)

CENTRES = 20 * torch.eye(6, 20)


def planted(each: int = 60, seed: int = 0) -> tuple[list[Client], list[torch.Tensor]]:
    """Six clusters, of which every client holds two."""
    rng = torch.Generator().manual_seed(seed)
    truth = [torch.tensor([i, (i + 1) % 6]).repeat_interleave(each) for i in range(6)]
    return [Client(i, CENTRES[y] + torch.randn(len(y), 20, generator=rng)) for i, y in enumerate(truth)], truth


def run(
    method: KinGraphMethod, clients: list[Client], seed: int = 0, **options: Any
) -> tuple[LocalFederation, Any, list[Any]]:
    fed = LocalFederation(clients, seed, workers=1, **options)
    state, records = method.init(fed), []
    while not state.finished:
        state, record = method.step(fed, state)
        records.append(record)
    return fed, state, records


def agreement(clients: list[Client], truth: list[torch.Tensor]) -> float:
    return adjusted_rand_score(torch.cat(truth), torch.cat([client.state["clusters"] for client in clients]))


@pytest.mark.parametrize("options", [{}, {"n_clusters": 6}])
def test_planted_clusters_are_found_where_no_client_holds_them_all(options: dict[str, Any]):
    clients, truth = planted()
    method = KinGraphMethod(common_micro_clusters=False, **options)
    _, state, records = run(method, clients)
    assert method.result(state)["n_clusters"] == 6
    assert agreement(clients, truth) > 0.99
    assert [record.values["phase"] for record in records] == ["components", "differences", "graph"]
    assert records[2].values["clusters"] == 6


def test_moments_cross_once_and_then_micro_clusters():
    clients, _ = planted()
    fed, state, _ = run(KinGraphMethod(micro_clusters=10, common_micro_clusters=False), clients)
    assert fed.exchange == 5  # shapes, moments, differences, micro-clusters, clusters
    assert len(state.counts) <= 60
    assert state.counts.min() >= 5
    assert state.counts.sum() == 720
    moments, differences, summary = 20 * 8 + 210 * 4, 20 * 20 * 8, 10 * (20 * 4 + 8)
    assert fed.received < 6 * (moments + differences + summary + 400)


def test_a_client_that_was_not_there_is_told_all_nodes_and_new_samples_go_to_the_nearest():
    clients, truth = planted()
    method = KinGraphMethod(common_micro_clusters=False)
    _, state, records = run(method, clients, failures=[(3, 2), (4, 2)])
    assert [record.missing for record in records[1:]] == [{2: "lost on purpose"}] * 2
    assert agreement(clients, truth) > 0.98
    new, y = planted(seed=1)
    found = [method.predict(method.result(state), client.x) for client in new]
    assert adjusted_rand_score(torch.cat(y), torch.cat(found)) == 1.0
    assert method.embed(method.result(state), new[0].x).shape == (120, state.directions.shape[1])
    assert method.predict(method.result(state), new[0].x[:0]).shape == (0,)


def test_a_client_with_too_few_samples_sends_nothing_and_gets_clusters():
    clients, truth = planted()
    clients.append(Client(6, CENTRES[:4] + 0.1))
    _, state, _ = run(KinGraphMethod(common_micro_clusters=False), clients)
    assert state.counts.sum() == 720
    assert agreement(clients, [*truth, torch.arange(4)]) > 0.98
    with pytest.raises(FedkinError, match="min_members"):
        run(KinGraphMethod(min_members=500, common_micro_clusters=False), clients)


def test_nobody_there_is_no_end_and_nobody_ever_is_one():
    clients, truth = planted()
    _, _, records = run(KinGraphMethod(common_micro_clusters=False), clients, failures=[(2, i) for i in range(6)])
    assert [len(record.answered) for record in records] == [0, 6, 6, 6]
    assert agreement(clients, truth) > 0.98
    _, state, records = run(KinGraphMethod(common_micro_clusters=False), clients, failures=[(3, i) for i in range(6)])
    assert [len(record.answered) for record in records] == [6, 0, 6, 6]
    assert state.whitened
    assert agreement(clients, truth) > 0.98
    with pytest.raises(FedkinError, match="No client with enough samples answered"):
        run(
            KinGraphMethod(common_micro_clusters=False),
            clients,
            failures=[(exchange, i) for exchange in range(2, 30) for i in range(6)],
        )


@pytest.mark.parametrize("exchange", [2, 3, 4])
def test_the_one_large_client_is_waited_for_though_small_ones_have_answered(exchange: int):
    clients = [Client(0, torch.cat([one.x for one in planted()[0]])), Client(1, torch.rand(3, 20))]
    _, state, records = run(KinGraphMethod(common_micro_clusters=False), clients, failures=[(exchange, 0)])
    assert [0 in record.missing for record in records] == [at == exchange for at in range(2, 6)]
    assert state.whitened
    assert state.counts.sum() == 720


def test_a_result_of_more_clusters_than_nodes_is_refused_and_nothing_is_allocated():
    clients, _ = planted()
    method = KinGraphMethod(common_micro_clusters=False)
    _, state, _ = run(method, clients)
    payload = {"result": {**method.result(state), "n_clusters": 2**40}}
    with pytest.raises(FedkinError, match=f"names {2**40} clusters of"):
        receive_clusters.run(clients[:1], [payload])


@pytest.mark.parametrize("options", [{}, {"broadcast_nodes": False}, {"common_micro_clusters": True}])
def test_a_finished_state_can_be_cut_again_and_clients_are_asked_for_nothing(options: dict[str, Any]):
    clients, _ = planted()
    fed, state, records = run(KinGraphMethod(**options), clients)
    labels = [client.state["clusters"].clone() for client in clients]
    again, record = KinGraphMethod(**options).step(fed, KinGraphMethod(**options).before_cut(state))
    assert again.tree().keys() == state.tree().keys()
    assert all(torch.equal(a, client.state["clusters"]) for a, client in zip(labels, clients, strict=True))
    assert record.values.items() <= records[-1].values.items()
    received = fed.received
    coarse = KinGraphMethod(**options, n_clusters=2)
    after, record = coarse.step(fed, coarse.before_cut(state))
    assert fed.received - received <= 2 * len(clients), "nothing but that they have received it"
    assert after.steps == state.steps
    assert record.answered == [client.id for client in clients]
    assert record.values["clusters"] == 2
    fresh, _ = planted()
    run(coarse, fresh)
    for ours, theirs in zip(clients, fresh, strict=True):
        assert torch.equal(ours.state["clusters"], theirs.state["clusters"])
        assert torch.equal(ours.state["confidence"], theirs.state["confidence"])


def test_few_nodes_are_told_to_all_and_samples_go_by_them(monkeypatch: pytest.MonkeyPatch):
    x, y = load_digits(return_X_y=True)
    x, y = torch.from_numpy(x).float().view(-1, 1, 8, 8) / 16, torch.from_numpy(y)
    clients = [Client(i, x[i::10]) for i in range(10)]
    truth = [y[i::10] for i in range(10)]

    def found(**options: Any) -> tuple[float, int, list[torch.Tensor]]:
        fed, _, _ = run(KinGraphMethod(n_clusters=10, common_micro_clusters=False, **options), clients)
        return agreement(clients, truth), fed.sent, [client.state["clusters"] for client in clients]

    everyone, own = found(), found(broadcast_nodes=False)
    assert everyone[0] > own[0] + 0.02
    assert everyone[1] > own[1]
    monkeypatch.setattr("fedkin.methods.samples.kingraph.kingraph.MAX_BROADCAST", 50)
    assert all(map(torch.equal, own[2], found()[2]))


def blocks_of(frames, **options):
    clients = ClientFiles(frames).build().clients
    fed = LocalFederation(clients, seed=0)
    encoding = prepare(fed, TableOptions(**options)).encoding
    blocks = described(fed, private=False)[1].tolist()
    return {name: blocks[start:end] for name, start, end in encoding.blocks}


def table(rows, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "length": rng.normal(size=rows),
            "town": rng.choice(["Ulm", "Bonn", "Kiel"], rows),
            "smokes": rng.choice(["yes", "no"], rows),
            "stage": rng.integers(1, 4, rows).astype(float),
            "grade": rng.integers(1, 6, rows),
        }
    )


def test_categories_truths_and_numbers_of_three_values_are_discrete():
    found = blocks_of([table(60), table(60, 1)])
    assert found["length"] == [-1]
    assert found["grade"] == [-1]
    assert len(set(found["town"])) == 1
    assert found["town"][0] >= 0
    assert found["smokes"][0] >= 0
    assert found["stage"][0] >= 0
    assert len({found["town"][0], found["smokes"][0], found["stage"][0]}) == 3


def latent(rows, columns, numbers, seed, classes=4):
    """Rows of four classes, whose categories depend on the class alone."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, rows)
    frame = pd.DataFrame(
        rng.normal(size=(classes, numbers))[truth] * 2.2 + rng.normal(size=(rows, numbers)),
        columns=[f"n{at}" for at in range(numbers)],
    )
    for at in range(columns):
        shares = rng.dirichlet(np.full(4, 0.35), classes)
        frame[f"c{at}"] = [rng.choice(list("abcd"), p=shares[own]) for own in truth]
    return frame, truth


@pytest.mark.parametrize(("columns", "numbers"), [(10, 0), (4, 5)], ids=["categories", "mixed"])
@pytest.mark.parametrize("common", [False, True])
def test_clusters_of_many_rows_are_not_cut_by_category(columns, numbers, common):
    frame, truth = latent(1_500, columns, numbers, seed=0)
    parts = [frame[at::3].reset_index(drop=True) for at in range(3)]
    model = fedkin.KinGraph(common_micro_clusters=common, random_state=0).fit(parts)
    found = np.concatenate(model.labels_)
    assert adjusted_rand(np.concatenate([truth[at::3] for at in range(3)]), found) > 0.85
    assert np.array_equal(model.predict(parts[0]), model.labels_[0])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_columns_of_noise_hide_no_clusters():
    rng = generator()
    truth = torch.arange(900) % 4
    clusters = 6 * torch.eye(4)[truth] + torch.randn(900, 4, generator=rng)
    x = torch.cat([clusters, 4 * torch.randn(900, 12, generator=rng)], dim=1)
    clients = [Client(i, x[i::3]) for i in range(3)]
    method = KinGraphMethod(n_clusters=4)
    fed = LocalFederation(clients, 0)
    state = method.init(fed)
    while not state.finished:
        state, _ = method.step(fed, state)
    found = adjusted_rand(pooled([truth[i::3] for i in range(3)]), pooled([c.state["clusters"] for c in clients]))
    assert found > 0.9


@pytest.mark.parametrize("rows", [2, 40])
def test_a_mean_of_several_rows_makes_no_more_points_of_a_sample(rows: int):
    """The server names the mean; with one sample its rows would become as many points."""
    space = {"features": "raw", "projection": None, "bound": None, "directions": torch.eye(3)}
    client = Client(0, torch.rand(1, 3))
    with pytest.raises(FedkinError, match=rf"^Points of 1 samples have shape \({rows}, 3\), not one row each\.$"):
        client_points(client.x, space | {"mean": torch.zeros(rows, 3)})
    assert client_points(client.x, space | {"mean": torch.zeros(3)}).shape == (1, 3)
