"""FedDP-KMeans: what one sample can change, whose budget holds, and that the server's samples help."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

import fedkin
from fedkin.core import Client, FedkinError, Payload
from fedkin.core.payload import pack
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.feddp_kmeans import FedDPKMeansMethod, count_by_point, send_products, send_sums
from fedkin.methods.samples.private_releases import triangle_of
from fedkin.privacy.budget import NAMES, SPENT
from fedkin.privacy.gaussian import gaussian_mu

WIDTH = 5
DIRECTIONS = torch.eye(WIDTH)[:, :3].contiguous()
FREE: Payload = {"features": "raw", "bound": 2.0, "deviation": 0.0, "budget": math.inf}
POINTS = 0.3 * torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
ASKS: dict[str, tuple[Any, Payload, float]] = {
    "products": (send_products, {"width": WIDTH}, 1.0),
    "counts": (count_by_point, {"directions": DIRECTIONS, "points": POINTS}, 1.0),
    "starts": (send_sums, {"directions": DIRECTIONS, "points": POINTS, "width": WIDTH}, math.sqrt(2)),
    "lloyd": (send_sums, {"points": torch.eye(WIDTH), "width": WIDTH}, math.sqrt(2)),
}


def samples(n: int = 40) -> Tensor:
    return 2 * torch.randn(n, WIDTH, generator=torch.Generator().manual_seed(0))


def answer(ask: str, x: Tensor | Client, **changed: Any) -> Payload:
    task, payload, _ = ASKS[ask]
    return task.run([x if isinstance(x, Client) else Client(0, x)], [{**FREE, **payload, **changed}])[0]


def length(ask: str, with_it: Payload, without: Payload) -> float:
    changes = [(with_it[name] - without[name]).double() for name in with_it]
    if ask == "products":
        square = torch.zeros(WIDTH, WIDTH, dtype=torch.float64)
        square[tuple(torch.tril_indices(WIDTH, WIDTH))] = changes[0]
        changes = [triangle_of(square)]
    return math.sqrt(sum(float(change.square().sum()) for change in changes))


@pytest.mark.parametrize("size", [0.01, 1e4, math.nan])
@pytest.mark.parametrize("changed", [{}, {"bound": 1e-20}])
@pytest.mark.parametrize("ask", list(ASKS))
def test_whatever_a_server_asks_for_one_sample_changes_no_more_than_the_noise_is_made_for(
    ask: str, changed: Payload, size: float
):
    x = samples()
    x[-1] *= size
    found = length(ask, answer(ask, x, **changed), answer(ask, x[:-1], **changed))
    assert found <= ASKS[ask][2] * (1 + 1e-4)
    if size == 1e4 and not changed and ask != "starts":
        assert found > 0.999 * ASKS[ask][2]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ask", ["counts", "starts"])
def test_hostile_directions_let_no_row_change_what_others_contribute(ask: str, seed: int):
    """In float32 rounding depends on the number of rows; of equal rows across these directions nothing else is left."""
    rng = torch.Generator().manual_seed(seed)
    row, across = torch.randn(2, 64, generator=rng, dtype=torch.float64)
    across -= row * (row @ across) / row.square().sum()
    x, directions = row.float().expand(40, 64).contiguous(), 1e8 * across[:, None].float()
    how = {"directions": directions, "points": torch.tensor([[-1.0], [1.0]])} | (
        {"width": 64} if ask == "starts" else {}
    )
    replies = [answer(ask, x[:rows].clone(), **how) for rows in range(1, 41)]
    for with_it, without in zip(replies[1:], replies, strict=False):
        assert length(ask, with_it, without) <= ASKS[ask][2] * (1 + 1e-6)


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_stages_spend_the_budget_and_no_more(rounds: int):
    method = FedDPKMeansMethod(n_clusters=3, epsilon=3.0, rounds=rounds)
    clients, _ = blobs()
    run(method, clients)
    for client in clients:
        assert float(client.state[SPENT].sum()) == pytest.approx(gaussian_mu(3.0, 1e-5) ** 2)
        assert len(client.state[NAMES]) == 3 + rounds


def test_a_client_keeps_within_its_budget_whoever_asks():
    mu = gaussian_mu(1.0, 1e-5)
    client = Client(0, samples())
    ask = {"deviation": 1.0 / (mu / 2), "budget": mu}
    several = torch.randn(6, 4, 3, generator=torch.Generator().manual_seed(2))
    replies = [answer("counts", client, points=points, **ask) for points in several]
    assert [bool(reply) for reply in replies] == [True] * 4 + [False] * 2
    assert not answer("products", client, **ask)
    assert not answer("counts", Client(0, samples()), deviation=0.0, budget=mu)
    assert not answer("counts", Client(0, samples()), deviation=5.0, budget=math.nan)
    refuses = Client(0, samples(), reserve=lambda wanted: False)
    assert not answer("counts", refuses, **ask)
    assert SPENT not in refuses.state


@pytest.mark.parametrize("ask", list(ASKS))
def test_requests_that_would_weaken_the_noise_are_refused(ask: str):
    task, payload, _ = ASKS[ask]
    good = {**FREE, **payload, "deviation": 1.0, "budget": 1.0}
    assert task.accounted
    assert task.objection(good) is None
    for wrong in ({"deviation": 0.0}, {"deviation": -1.0}, {"budget": math.inf}, {"features": "fedkin.features:x"}):
        assert task.objection({**good, **wrong}) is not None
    if "width" in payload:
        with pytest.raises(FedkinError, match=r"not 9"):
            answer(ask, samples(), width=9, points=torch.zeros(2, 9))
    if ask == "lloyd":
        with pytest.raises(FedkinError, match="Points have 3 numbers, where rows have 5"):
            answer(ask, samples(), points=POINTS)


CENTRES = torch.tensor([[0.9, 0.1, 0.1, 0.5], [0.1, 0.9, 0.1, 0.5], [0.1, 0.1, 0.9, 0.5]])


def blobs(clients: int = 3, n: int = 2000) -> tuple[list[Client], Tensor]:
    rng = torch.Generator().manual_seed(0)
    truth = [torch.randint(3, (n,), generator=rng) for _ in range(clients)]
    made = [Client(i, CENTRES[y] + 0.05 * torch.randn(n, 4, generator=rng)) for i, y in enumerate(truth)]
    return made, torch.cat(truth)


def run(method: FedDPKMeansMethod, clients: list[Client], **options: Any) -> tuple[Any, Tensor, list[Any]]:
    fed, records = LocalFederation(clients, 0, workers=1, **options), []
    state = method.init(fed)
    while not state.finished:
        state, record = method.step(fed, state)
        records.append(record)
    return state, torch.cat([client.state["clusters"] for client in clients]), records


@pytest.mark.parametrize("options", [{}, {"failures": [(4, 1)]}])
@pytest.mark.parametrize("server", [True, False])
def test_clusters_are_found_through_the_noise(server: bool, options: dict[str, Any]):
    clients, truth = blobs()
    near = CENTRES.repeat(5, 1) + 0.1 * torch.rand(15, 4, generator=torch.Generator().manual_seed(2))
    own = {"server_data": "near", "read": lambda source: near} if server else {}
    state, found, records = run(FedDPKMeansMethod(n_clusters=3, epsilon=4.0, **own), clients, **options)
    assert adjusted_rand_score(truth, found) > 0.95
    assert [record.values["phase"] for record in records] == ["directions", "weights", "centres", "lloyd"]
    assert records[0].values["points"] == (15 if server else 90)
    assert records[0].values["noise_source"] == "the run's seed"
    assert state.centroids.shape == (3, 4)


def test_only_a_shape_and_noisy_sums_leave_a_client(monkeypatch: pytest.MonkeyPatch):
    replies: list[tuple[str, Payload]] = []
    deliver = LocalFederation.deliver

    def listen(fed: LocalFederation, task: Any, payloads: Any) -> Any:
        for i, reply in deliver(fed, task, payloads):
            replies.append((task.name.split(".")[-1], reply))
            assert task.accounted
            yield i, reply

    monkeypatch.setattr(LocalFederation, "deliver", listen)
    run(FedDPKMeansMethod(n_clusters=3), blobs()[0])
    assert {name: set(reply) for name, reply in replies} == {
        "send_shape": {"shape"}, "send_products": {"products"}, "count_by_point": {"counts"},
        "send_sums": {"counts", "sums"}, "assign_to_centroids": set(),
    }  # fmt: skip
    assert all(not pack(reply)[0] for name, reply in replies if name == "send_shape")


def test_clients_that_have_spent_their_budgets_say_so_and_nobody_is_blamed_for_noise():
    clients, _ = blobs()
    for client in clients:
        client.state[SPENT] = torch.tensor([100.0], dtype=torch.float64)
        client.state[NAMES] = torch.zeros(1, 32, dtype=torch.uint8)
    with pytest.raises(FedkinError, match="spent their budgets"):
        run(FedDPKMeansMethod(n_clusters=3), clients)
    lost = [(exchange, i) for exchange in range(2, 99) for i in range(3)]
    with pytest.raises(FedkinError, match=r"No client answered FedDP-KMeans in step 20 and before \(lost on"):
        run(FedDPKMeansMethod(n_clusters=3), blobs()[0], failures=lost)


@pytest.mark.filterwarnings("ignore:The privacy guarantee does not cover")
def test_the_servers_samples_are_prepared_as_the_clients_are(tmp_path: Path):
    clients, truth = blobs()
    scaled = [1000 + 50 * client.x.numpy() for client in clients]
    server = 1000 + 50 * (CENTRES.repeat(4, 1).numpy() + 0.02)
    model = fedkin.FedDPKMeans(n_clusters=3, epsilon=8.0, random_state=0, server_data=server).fit(scaled)
    assert adjusted_rand_score(truth, np.concatenate([*model.labels_])) > 0.95
    np.savez(tmp_path / "server.npz", x=server)
    read = fedkin.FedDPKMeans(n_clusters=3, epsilon=8.0, random_state=0, server_data=str(tmp_path / "server.npz")).fit(
        scaled
    )
    assert all(np.array_equal(one, other) for one, other in zip(model.labels_, read.labels_, strict=True))


@pytest.mark.parametrize("ask", ["counts", "starts"])
def test_directions_longer_than_1_are_refused(ask: str):
    task, payload, _ = ASKS[ask]
    good = {**FREE, **payload, "deviation": 1.0, "budget": 1.0}
    turned = torch.linalg.qr(torch.randn(WIDTH, 3, generator=torch.Generator().manual_seed(3))).Q.contiguous()
    assert task.objection({**good, "directions": turned}) is None
    assert task.objection({**good, "directions": 1.01 * turned}) is not None
