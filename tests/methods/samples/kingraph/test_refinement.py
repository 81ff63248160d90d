"""The federated head: a sum of gradients over clients, the same wherever it is formed, that no client is bent by."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

import fedkin
from fedkin.core import Client, FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.experiment.run_folder import restore_checkpoint, snapshot
from fedkin.methods.samples.kingraph.kingraph import KinGraphMethod
from fedkin.methods.samples.kingraph.refinement import begin, find_neighbours, refine, send_gradient
from fedkin.secure_aggregation.sums import ClientSums, HiddenSums

ROUNDS = 6
SETTINGS: dict[str, Any] = {"features": "embedded", "n_clusters": 4, "refine": True, "common_micro_clusters": False}


@pytest.fixture(autouse=True)
def _few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedkin.methods.samples.kingraph.kingraph.ROUNDS", ROUNDS)


class Elsewhere(LocalFederation):
    """Federation that hides sums, as those do whose clients are elsewhere."""

    def sums(self) -> ClientSums:
        return HiddenSums(self) if len(self.present) >= 3 else ClientSums(self)


def embeddings(held: list[list[int]], each: int = 40) -> list[Client]:
    """Clients with embeddings of length 1 around the directions that each holds, of four that are not far apart."""
    rng = torch.Generator().manual_seed(0)
    directions = torch.eye(4, 12) + 0.5
    clients = []
    for i, classes in enumerate(held):
        truth = torch.tensor(classes).repeat_interleave(each)
        rows = directions[truth] + 0.25 * torch.randn(len(truth), 12, generator=rng)
        clients.append(Client(i, normalize(rows, dim=1), truth))
    return clients


MIXED = [[0, 1, 2, 3], [0, 1], [1, 2, 3], [3]]


def finished(fed: LocalFederation, **options: Any) -> tuple[KinGraphMethod, Any]:
    method = KinGraphMethod(**{**SETTINGS, **options})
    state = method.init(fed)
    while not state.finished:
        state, _ = method.step(fed, state)
    return method, state


def test_hidden_sums_make_the_same_head_to_the_last_bit_and_clients_forget_their_rows():
    heads = []
    for engine in (LocalFederation, Elsewhere):
        fed = engine(embeddings(MIXED), 0)
        _, state = finished(fed)
        assert state.steps == 3 + ROUNDS
        assert all({"rows", "neighbours"}.isdisjoint(client.state) for client in fed.clients.values())
        heads.append(state.head)
    assert torch.equal(heads[0]["teacher"], heads[1]["teacher"])
    assert torch.equal(heads[0]["marginal"], heads[1]["marginal"])


def test_a_run_that_resumes_at_each_step_has_the_same_head():
    _, whole = finished(LocalFederation(embeddings(MIXED), 0))
    method, fed = KinGraphMethod(**SETTINGS), LocalFederation(embeddings(MIXED), 0)
    state = method.init(fed)
    while not state.finished:
        tree = snapshot(fed, state)
        fed = LocalFederation(embeddings(MIXED), 0)
        state, _ = method.step(fed, restore_checkpoint(fed, method.state_type, tree))
    assert torch.equal(state.head["teacher"], whole.head["teacher"])


def test_the_order_of_clients_changes_nothing():
    clients = embeddings(MIXED)
    _, state = finished(LocalFederation(clients, 0))
    heads = []
    for order in ([0, 1, 2, 3], [2, 0, 3, 1]):
        fed = LocalFederation([Client(i, clients[j].x) for i, j in enumerate(order)], 0)
        head = begin(fed, state, 5)
        for _ in range(ROUNDS):
            head, _ = refine(fed, head)
        heads.append(head["teacher"])
    assert torch.equal(*heads)


@pytest.mark.parametrize("rounds", [ROUNDS, 30])
def test_a_client_of_one_class_keeps_it_and_labels_are_what_the_head_predicts(
    rounds: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("fedkin.methods.samples.kingraph.kingraph.ROUNDS", rounds)
    clients = embeddings(MIXED)
    method, state = finished(LocalFederation(clients, 0))
    result = method.result(state)
    assert clients[3].state["clusters"].unique().numel() == 1
    assert torch.cat([client.state["clusters"] for client in clients]).unique().numel() == 4
    for client in clients:
        shares = method.memberships(result, client.x)
        assert torch.equal(client.state["clusters"], method.predict(result, client.x))
        assert torch.equal(client.state["confidence"], method.confidence(result, client.x))
        assert torch.equal(method.client_memberships(result, client), shares)
        assert torch.allclose(shares.sum(1), torch.ones(len(client)))


def sent(client: Client, least: int = 0, clusters: int = 3) -> dict[str, Any]:
    rng = torch.Generator().manual_seed(1)
    space = {"features": "raw", "projection": None, "bound": None, "mean": torch.zeros(12), "directions": torch.eye(12)}
    find_neighbours.run([client], [{"space": space, "clusters": clusters, "least": least}])
    weights = [normalize(torch.randn(clusters, 12, generator=rng), dim=1) for _ in range(2)]
    marginal = torch.full((clusters,), 1 / clusters, dtype=torch.float64)
    payload = {"student": weights[0], "teacher": weights[1], "marginal": marginal}
    return payload | {"sent": send_gradient.run([client], [payload])[0]}


def test_the_gradient_is_that_of_the_loss():
    client = embeddings([[0, 1]])[0]
    found = sent(client)
    student, rows = found["student"].clone().requires_grad_(), client.state["rows"]
    shares = (rows @ student.T / 0.1).softmax(1)
    taught = (rows @ found["teacher"].T / 0.1).softmax(1)[client.state["neighbours"]]
    loss = -((shares[:, None] * taught) ** 0.6 / found["marginal"]).sum(2).log().mean(1).sum()
    loss.backward()
    assert torch.allclose(found["sent"]["gradient"].float() * 0.6 / 0.1, student.grad, rtol=1e-3, atol=1e-3)


def test_few_samples_send_nothing():
    client = embeddings([[0]], each=4)[0]
    for least, own in ((5, 0), (0, 5)):
        client.min_members = own
        assert not any(part.any() for part in sent(client, least)["sent"].values())
        assert "rows" not in client.state
    client = embeddings([[0, 1]])[0]
    whole = sent(client)["sent"]
    client.min_members = int(whole["marginal"].min()) + 1  # a site's own minimum holds for its part of each cluster
    part = sent(client)["sent"]
    few = whole["marginal"] < client.min_members
    assert few.any()
    assert not part["gradient"][few].any()
    assert torch.equal(part["gradient"][~few], whole["gradient"][~few])


def test_clusters_that_are_cut_again_or_without_a_client_are_those_of_no_head():
    parts = [client.x.numpy() for client in embeddings([[0, 1, 2, 3]] * 3)]
    refined, plain = (
        fedkin.KinGraph(**{**SETTINGS, "refine": refined}, random_state=0).fit(parts) for refined in (True, False)
    )
    assert len(refined.records_) == 3 + ROUNDS
    for changed, other in ((refined.cut(3), plain.cut(3)), (refined, plain)):
        if changed is refined:
            changed.forget(1, parts)
            other.forget(1, parts)
        assert "head" not in changed.result_
        assert len(changed.records_) == 3
        assert all(map(np.array_equal, changed.labels_, other.labels_))


def test_no_epsilon_covers_the_head():
    with pytest.raises(FedkinError):
        KinGraphMethod(refine=True, epsilon=4.0)
