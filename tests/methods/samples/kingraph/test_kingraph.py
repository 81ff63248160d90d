"""kin-graph: clusters that no client holds whole, of any shape, and what crosses for them."""

from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics import adjusted_rand_score

from fedkin.core import Client, FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.features import kept_features, pca
from fedkin.features.extractors import extract
from fedkin.methods.samples.kingraph import kingraph_space
from fedkin.methods.samples.kingraph.kingraph import KinGraphMethod
from fedkin.methods.samples.kingraph.kingraph_space import receive_clusters

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


@pytest.mark.parametrize("options", [{}, {"n_clusters": 6}, {"max_nodes": 60}, {"smoothing": 10}])
def test_planted_clusters_are_found_where_no_client_holds_them_all(options: dict[str, Any]):
    clients, truth = planted()
    method = KinGraphMethod(common_micro_clusters=False, **options)
    _, state, records = run(method, clients)
    assert method.result(state)["n_clusters"] == 6
    assert agreement(clients, truth) > 0.99
    assert [record.values["phase"] for record in records] == ["components", "differences", "graph"]
    assert records[2].values["clusters"] == 6
    assert 0.5 <= records[2].values["largest_client_share"] < 0.53  # every cluster is at two clients
    assert records[2].values["nodes"] <= options.get("max_nodes", 20_000)


def test_clusters_may_have_any_shape():
    x, y = make_moons(900, noise=0.05, random_state=0)
    order = x[:, 0].argsort()  # clients are strips across both moons
    clients = [Client(i, torch.from_numpy(x[order[i::3]]).float()) for i in range(3)]
    run(KinGraphMethod(n_clusters=2, common_micro_clusters=False), clients)
    assert agreement(clients, [torch.from_numpy(y[order[i::3]]) for i in range(3)]) > 0.95


def test_moments_cross_once_and_then_micro_clusters():
    clients, _ = planted()
    fed, state, _ = run(KinGraphMethod(micro_clusters=10, common_micro_clusters=False), clients)
    assert fed.exchange == 5  # shapes, moments, differences, micro-clusters, clusters
    assert len(state.counts) <= 60
    assert state.counts.min() >= 5
    assert state.counts.sum() == 720
    moments, differences, summary = 20 * 8 + 210 * 4, 20 * 20 * 8, 10 * (20 * 4 + 8)
    assert fed.traffic.received < 6 * (moments + differences + summary + 400)


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


def test_wide_features_are_projected_at_random_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fedkin.methods.samples.kingraph.kingraph.WIDEST", 15)
    for module in ("kingraph", "kingraph_space"):
        monkeypatch.setattr(f"fedkin.methods.samples.kingraph.{module}.PROJECTED", 12)
    clients, truth = planted()
    _, state, _ = run(KinGraphMethod(common_micro_clusters=False), clients)
    assert state.mean.shape == (12,)
    assert pca.WIDEST == 2048
    assert agreement(clients, truth) > 0.9


def test_images_are_compared_by_gradients_and_tables_by_their_columns():
    rng = torch.Generator().manual_seed(0)
    images = [Client(i, torch.rand(30, 1, 12, 12, generator=rng)) for i in range(3)]
    _, state, _ = run(KinGraphMethod(common_micro_clusters=False), images)
    assert (state.features, state.smoothing) == ("gradients", 10)
    assert state.mean.shape == (extract("gradients", images[0].x).shape[1],)
    clients, truth = planted()
    for client in clients:
        client.x[:, :6] *= 1000
    _, state, _ = run(KinGraphMethod(common_micro_clusters=False), clients)
    assert (state.features, state.standardise, state.smoothing) == ("raw", False, 0)
    assert agreement(clients, truth) > 0.98


def test_a_floor_that_no_client_reaches_is_refused_before_anything_begins():
    fed = LocalFederation([Client(i, torch.rand(12, 3)) for i in range(2)])
    with pytest.raises(FedkinError, match=r"method\.min_members is 13, and no client has more than 12 samples"):
        KinGraphMethod(min_members=13, common_micro_clusters=False).init(fed)


@pytest.mark.parametrize("options", [{}, {"epsilon": 1e6}])
def test_features_of_a_client_are_computed_once_and_deleted_at_the_end(options, monkeypatch: pytest.MonkeyPatch):
    extracted = []

    def counted(name: str, x: torch.Tensor) -> torch.Tensor:
        extracted.append(len(x))
        return extract(name, x)

    monkeypatch.setattr(kingraph_space, "extract", counted)
    rng = torch.Generator().manual_seed(0)
    clients = [Client(i, torch.rand(70 + i, 1, 12, 12, generator=rng)) for i in range(3)]
    run(KinGraphMethod(common_micro_clusters=False, **options), clients)
    assert extracted == [70, 71, 72]
    assert not any(client.x in kept_features._kept for client in clients)


def test_a_result_of_more_clusters_than_nodes_is_refused_and_nothing_is_allocated():
    clients, _ = planted()
    method = KinGraphMethod(common_micro_clusters=False)
    _, state, _ = run(method, clients)
    payload = {"smoothing": 0, "rounds": 0, "result": {**method.result(state), "n_clusters": 2**40}}
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
    received = fed.traffic.received
    coarse = KinGraphMethod(**options, n_clusters=2)
    after, record = coarse.step(fed, coarse.before_cut(state))
    assert fed.traffic.received - received <= 2 * len(clients), "nothing but that they have received it"
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
        return agreement(clients, truth), fed.traffic.sent, [client.state["clusters"] for client in clients]

    everyone, own = found(), found(broadcast_nodes=False)
    assert everyone[0] > own[0] + 0.02
    assert everyone[1] > own[1]
    assert all(map(torch.equal, everyone[2], found(broadcast_nodes=True)[2]))
    monkeypatch.setattr("fedkin.methods.samples.kingraph.kingraph._MAX_BROADCAST", 50)
    assert all(map(torch.equal, own[2], found()[2]))
