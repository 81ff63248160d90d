"""kin-graph with differential privacy: what one sample can change, how much noise hides it, and what is left to see."""

import math
from typing import Any

import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from fedkin.core import Client, FedkinError, Payload
from fedkin.core.payload import pack
from fedkin.core.seeds import Secret
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.kingraph.kingraph import KinGraphMethod
from fedkin.methods.samples.kingraph.private_kingraph import PrivacyBudget, send_noisy_moments, send_noisy_sums
from fedkin.privacy.budget import SPENT
from fedkin.privacy.gaussian import gaussian_delta

WIDTH = 6
RAW: Payload = {"features": "raw", "projection": None, "bound": 2.0}
POINTS: Payload = {**RAW, "mean": torch.full((WIDTH,), 0.1), "directions": torch.eye(WIDTH)[:, :3].contiguous()}
FREE: Payload = {"deviation": 0.0, "budget": math.inf}
NAMED = (math.nan, -1.0, 0.0)


def noisy_moments(client: Client, payload: Payload) -> Payload:
    return send_noisy_moments.run([client], [payload])[0]


def noisy_sums(client: Client, payload: Payload) -> Payload:
    return send_noisy_sums.run([client], [payload])[0]


def samples(n: int = 50, seed: int = 0) -> Tensor:
    return torch.randn(n, WIDTH, generator=torch.Generator().manual_seed(seed)) * 2


def lengths(changes: list[Payload]) -> float:
    return math.sqrt(sum(float(torch.as_tensor(value).double().square().sum()) for value in changes))


def moments(x: Tensor, **options: Any) -> Payload:
    return noisy_moments(Client(0, x), {"space": RAW, "width": WIDTH, **FREE, **options})


def sums(x: Tensor, **options: Any) -> Payload:
    centres = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)) * 0.1
    return noisy_sums(Client(0, x), {"space": POINTS, "centres": centres, "radius": 0.2, **FREE, **options})


@pytest.mark.parametrize("size", [0.01, 1.0, 3.0, 1e4])
def test_one_sample_changes_moments_by_no_more_than_the_noise_is_made_for(size: float):
    x = samples()
    x[-1] *= size
    with_it, without = moments(x), moments(x[:-1])
    low = torch.tril_indices(WIDTH, WIDTH)
    weight = torch.where(low[0] == low[1], 1.0, math.sqrt(2))
    changes = [with_it[name] - without[name] for name in ("count", "total")]
    length = lengths([*changes, (with_it["second"] - without["second"]) * weight])
    assert length <= math.sqrt(3) * (1 + 1e-4)
    assert size < 3 or length > 0.999 * math.sqrt(3)


@pytest.mark.parametrize("seed", range(3))
def test_hostile_directions_let_no_sample_change_what_others_contribute(seed: int):
    """In float32 rounding depends on the number of rows; of equal rows across these directions nothing else is left."""
    rng = torch.Generator().manual_seed(seed)
    row, across = torch.randn(2, 64, generator=rng, dtype=torch.float64)
    across -= row * (row @ across) / row.square().sum()
    x, directions = row.float().expand(40, 64).contiguous(), 1e8 * across[:, None].float()
    space = {**RAW, "mean": torch.zeros(64), "directions": directions}
    ask = {"space": space, "centres": torch.tensor([[-1e-3], [1e-3]]), "radius": 1e-3, **FREE}
    replies = [noisy_sums(Client(0, x[:rows].clone()), ask) for rows in range(1, 41)]
    for with_it, without in zip(replies[1:], replies, strict=False):
        assert lengths([with_it[name] - without[name] for name in with_it]) <= math.sqrt(2) * (1 + 1e-6)
    short = {**ask, "deviation": 1.0, "budget": 1.0, "space": {**space, "directions": directions / directions.norm()}}
    assert send_noisy_sums.objection(short) is None
    assert send_noisy_sums.objection({**short, "space": space}) is not None


OVERFLOWS: Payload = {**POINTS, "directions": torch.full((WIDTH, 3), 3e38), "mean": torch.zeros(WIDTH)}


@pytest.mark.parametrize("size", [0.0, 1.0, 1e30])
@pytest.mark.parametrize(
    ("space", "options"),
    [
        ({**RAW, "bound": None}, {}),
        ({**RAW, "bound": -1.0}, {}),
        ({**RAW, "bound": math.nan}, {}),
        ({**POINTS, "bound": None}, {"radius": 1e-20}),
        ({**POINTS, "bound": None}, {"radius": 0.0}),
        ({**POINTS, "bound": None}, {"radius": -1.0}),
        (POINTS, {"radius": math.nan}),
        ({**OVERFLOWS, "bound": None}, {}),
    ],
)
def test_whatever_a_server_asks_for_a_sample_changes_sums_no_more(space: Payload, options: Any, size: float):
    x = samples()
    x[-1] *= size
    summed = "mean" in space
    with_it, without = ((sums if summed else moments)(part, space=space, **options) for part in (x, x[:-1]))
    if not summed:
        low = torch.tril_indices(WIDTH, WIDTH)
        weight = torch.where(low[0] == low[1], 1.0, math.sqrt(2))
        with_it["second"], without["second"] = with_it["second"] * weight, without["second"] * weight
    assert lengths([with_it[name] - without[name] for name in with_it]) <= math.sqrt(2 if summed else 3) * (1 + 1e-4)


def test_a_server_cannot_have_one_number_told_many_times():
    one = Client(0, torch.rand(9, 1))
    with pytest.raises(FedkinError, match="Features have 1 numbers here, not 50"):
        noisy_moments(one, {"space": RAW, "width": 50, **FREE})


def test_the_noise_is_that_of_the_budget():
    budget = PrivacyBudget(2.0, 1e-5)
    assert gaussian_delta(2.0, budget.mu) == pytest.approx(1e-5, rel=1e-6)
    # The sensitivities are the roots of three and of two, and there are four rounds.
    assert 3 / budget.moments_deviation**2 + 4 * 2 / budget.round_deviation**2 == pytest.approx(budget.mu**2)
    x, drawn = samples(), []
    for seed in range(400):
        client = Client(0, x, rng=torch.Generator().manual_seed(seed))
        drawn.append(noisy_moments(client, {"space": RAW, "width": WIDTH, **FREE, "deviation": 5.0}))
    low = torch.tril_indices(WIDTH, WIDTH)
    expected = torch.where(low[0] == low[1], 5.0, 5.0 / math.sqrt(2))
    torch.testing.assert_close(torch.stack([one["second"] for one in drawn]).std(0), expected, rtol=0.15, atol=0)
    torch.testing.assert_close(torch.stack([one["total"] for one in drawn]).float().std(0), torch.full((WIDTH,), 5.0),
                               rtol=0.15, atol=0)  # fmt: skip
    assert torch.tensor([one["count"] for one in drawn]).std() == pytest.approx(5.0, rel=0.15)


def test_a_client_keeps_within_its_budget_whoever_asks():
    client, budget = Client(0, samples()), PrivacyBudget(1.0, 1e-5)
    centres = torch.randn(7, 4, 3, generator=torch.Generator().manual_seed(1))
    ask = {"space": POINTS, "radius": 1.0, "deviation": budget.round_deviation, "budget": budget.mu}
    replies = [noisy_sums(client, {**ask, "centres": own}) for own in centres]
    assert [bool(reply) for reply in replies] == [True] * 5 + [False] * 2  # five times 0.7 / 4
    assert float(client.state[SPENT].sum()) <= budget.mu**2
    assert not noisy_sums(Client(0, samples()), {**ask, "centres": centres[0], "deviation": 0.0})


@pytest.mark.parametrize("budget", NAMED)
def test_a_budget_that_is_none_lets_nothing_out(budget: float):
    assert not moments(samples(), deviation=5.0, budget=budget)


def test_a_client_has_the_last_word_on_what_a_run_may_spend():
    budget, asked = PrivacyBudget(1.0, 1e-5), []

    def reserve(mu: float) -> bool:
        asked.append(mu)
        return len(asked) == 1

    client = Client(0, samples(), reserve=reserve)
    ask = {"space": RAW, "width": WIDTH, "deviation": budget.moments_deviation, "budget": budget.mu}
    assert noisy_moments(client, ask)
    client.x = client.x[1:]
    client.state.clear()
    assert not noisy_moments(client, ask)
    assert asked == [budget.mu] * 2
    assert SPENT not in client.state


def test_what_was_released_is_released_again_with_the_same_noise_and_costs_nothing():
    client, budget = Client(0, samples(), noise=Secret(bytes(32))), PrivacyBudget(1.0, 1e-5)
    ask = {"space": RAW, "width": WIDTH, "deviation": budget.moments_deviation, "budget": budget.mu}
    first, spent = noisy_moments(client, ask), client.state[SPENT].clone()
    client.noise = Secret(bytes(32))
    again = noisy_moments(client, ask)
    assert all(torch.as_tensor(first[name]).equal(torch.as_tensor(again[name])) for name in first)
    assert client.state[SPENT].equal(spent)
    client.noise, client.x = Secret(bytes(32)), client.x[1:]
    other = noisy_moments(client, ask)
    assert abs(other["count"] - first["count"] + 1) > 1e-3  # the noise is another
    assert len(client.state[SPENT]) == 2


def blobs(sites: int = 3, n: int = 4000) -> tuple[list[Client], list[Tensor]]:
    rng = torch.Generator().manual_seed(0)
    centres = torch.tensor([[0.9, 0.1, 0.1, 0.5], [0.1, 0.9, 0.1, 0.5], [0.1, 0.1, 0.9, 0.5]])
    truth = [torch.randint(3, (n,), generator=rng) for _ in range(sites)]
    clients = [Client(i, centres[y] + 0.05 * torch.randn(n, 4, generator=rng)) for i, y in enumerate(truth)]
    return clients, truth


def run(method: KinGraphMethod, clients: list[Client], **options: Any) -> tuple[LocalFederation, Any]:
    fed = LocalFederation(clients, 0, workers=1, **options)
    state = method.init(fed)
    while not state.finished:
        state, _ = method.step(fed, state)
    return fed, state


@pytest.mark.parametrize("options", [{}, {"failures": [(4, 1)]}])
def test_clusters_are_found_through_the_noise(options: dict[str, Any]):
    clients, truth = blobs()
    fed, state = run(KinGraphMethod(n_clusters=3, epsilon=4.0), clients, **options)
    found = torch.cat([client.state["clusters"] for client in clients])
    assert adjusted_rand_score(torch.cat(truth), found) > 0.95
    assert fed.exchange == 7
    assert state.samples != 12000
    assert state.samples == pytest.approx(12000, abs=200)
    for client in clients:
        assert float(client.state[SPENT].sum()) <= PrivacyBudget(4.0, 1e-5).mu ** 2 * (1 + 1e-6)


def test_only_shapes_and_noisy_sums_leave_a_client(monkeypatch: pytest.MonkeyPatch):
    clients, _ = blobs()
    replies: list[tuple[str, Payload]] = []
    deliver = LocalFederation.deliver

    def listen(fed: LocalFederation, task: Any, payloads: Any) -> Any:
        for i, reply in deliver(fed, task, payloads):
            replies.append((task.name.split(".")[-1], reply))
            yield i, reply

    monkeypatch.setattr(LocalFederation, "deliver", listen)
    run(KinGraphMethod(n_clusters=3, epsilon=4.0), clients)
    assert {name: set(reply) for name, reply in replies} == {
        "send_shape": {"shape"},
        "send_noisy_moments": {"count", "total", "second"},
        "send_noisy_sums": {"counts", "sums"},
        "receive_clusters": set(),
    }
    assert all(not pack(reply)[0] for name, reply in replies if name == "send_shape")
