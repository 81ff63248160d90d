"""What every method that clusters samples promises, whatever its algorithm."""

from functools import cache
from typing import Any

import pytest
import torch
from small import SMALL
from torch import Tensor

import spoiled
from fedkin.core import Client, FedkinError
from fedkin.core.payload import pack
from fedkin.engines.local import LocalFederation
from fedkin.experiment import registry
from fedkin.experiment.config import checked_method
from fedkin.methods.samples.sample_method import SampleMethod

NAMES = [name for name, entry in registry.METHODS.items() if "methods.samples." in entry.target and name in SMALL]
NEAR = 1e-6
MOVES_DATA = {"kmeans", "fuzzy-cmeans", "dec"}
CORNERS = torch.tensor([[0.9, 0.1, 0.1, 0.9, 0.1, 0.5], [0.1, 0.9, 0.1, 0.1, 0.9, 0.5], [0.1, 0.1, 0.9, 0.9, 0.9, 0.5]])


def make_clients(sizes: tuple[int, ...] = (24, 30, 27)) -> list[Client]:
    """Clients with samples around three corners, client i without corner i."""
    rng = torch.Generator().manual_seed(7)
    clients = []
    for i, size in enumerate(sizes):
        held = torch.tensor([corner for corner in range(3) if corner != i % 3 or size == 1])
        truth = held[torch.arange(size) % len(held)]
        clients.append(Client(i, (CORNERS[truth] + 0.05 * torch.randn(size, 6, generator=rng)).clamp(0, 1)))
    return clients


def method_of(name: str) -> Any:
    return checked_method(registry.resolve("method", name), dict(SMALL[name]))


def run(name: str, clients: list[Client], **options: Any) -> tuple[Any, LocalFederation, Any]:
    method, fed = method_of(name), LocalFederation(clients, seed=3, **options)
    state = method.init(fed)
    while not state.finished:
        state, _ = method.step(fed, state)
    return method, fed, state


@cache
def reference(name: str) -> tuple[Any, LocalFederation, Any]:
    """A run from beginning to end, which nobody may change."""
    return run(name, make_clients())


def clusters_of(fed: LocalFederation) -> Tensor:
    return torch.cat([client.state["clusters"] for client in fed.clients.values()])


def same(first: Any, second: Any) -> bool:
    (tensors, text), (others, other) = pack(first), pack(second)
    return text == other and all(torch.equal(tensors[key], others[key]) for key in tensors)


def test_methods_say_whether_samples_leave_their_client():
    assert {name for name in NAMES if method_of(name).sends_samples()} == MOVES_DATA


def test_every_method_is_held_to_them():
    listed = {name for name, entry in registry.METHODS.items() if "methods.samples." in entry.target}
    assert listed - set(NAMES) == {"fedcref"}


SOFT = {"ffcm", "fuzzy-cmeans", "dec", "kin-graph"}
"""Methods that give memberships with the options of `SMALL`; SDA-FC does so with fuzzy c-means only."""


def assert_memberships(method: SampleMethod, result: Any, clients: list[Client]) -> None:
    """Each row sums to 1, of new samples and of the clients' own, or there is none."""
    given = {name for name in NAMES if type(method_of(name)) is type(method)}
    for client in clients:
        for parts in (method.memberships(result, client.x), method.client_memberships(result, client)):
            assert (parts is not None) == bool(given & SOFT)
            if parts is None:
                continue
            assert method.soft
            assert parts.dtype == torch.float32
            assert parts.shape == (len(client), result["n_clusters"])
            assert float(parts.min()) >= 0
            assert torch.allclose(parts.sum(1), torch.ones(len(client)), atol=1e-5)
    assert method.memberships(result, clients[0].x[:0]) is None or given & SOFT


def test_the_greatest_membership_is_that_of_the_cluster_predicted() -> None:
    for name in sorted(SOFT - {"kin-graph"}):  # whose nearest node alone decides where it is very near
        method, fed, state = reference(name)
        clients = fed.clients.values()
        result = method.result(state)
        x = torch.cat([client.x for client in clients])
        assert torch.equal(method.memberships(result, x).argmax(1), method.predict(result, x))


@pytest.mark.parametrize("name", NAMES)
def test_every_sample_gets_a_cluster_and_the_same_seed_the_same_one(name):
    method, fed, state = reference(name)
    clients = list(fed.clients.values())
    assert isinstance(method, SampleMethod)
    result = method.result(state)
    for client in clients:
        clusters = client.state["clusters"]
        assert clusters.dtype == torch.int64
        assert clusters.shape == (len(client),)
        assert 0 <= int(clusters.min()) <= int(clusters.max()) < result["n_clusters"]
        predicted = method.predict(result, client.x)
        assert predicted.dtype == torch.int64
        assert predicted.shape == (len(client),)
        assert method.embed(result, client.x).shape[0] == len(client)
        for confidence in (client.state["confidence"], method.confidence(result, client.x)):
            assert confidence.dtype == torch.float32
            assert confidence.shape == (len(client),)
            assert 0 <= float(confidence.min()) <= float(confidence.max()) <= 1
    assert_memberships(method, result, clients)
    _, again, other = run(name, make_clients())
    assert same(method.result(state), method.result(other))
    assert torch.equal(clusters_of(fed), clusters_of(again))


@pytest.mark.parametrize("name", NAMES)
def test_a_reply_does_not_depend_on_who_else_is_asked(name):
    _, alone, _ = run(name, make_clients(), chunk=1)
    _, together, _ = run(name, make_clients(), chunk=99, workers=1)
    assert torch.equal(clusters_of(alone), clusters_of(together))


@pytest.mark.parametrize("name", NAMES)
def test_clients_that_come_and_go_are_named_and_harm_nobody(name):
    clients = make_clients()
    method, fed = method_of(name), LocalFederation(clients, seed=11, drop_rate=0.3)
    state = method.init(fed)
    while not state.finished:
        state, record = method.step(fed, state)
        assert set(record.missing) | set(record.answered) >= set(fed.ids)
    assert pack(method.result(state))[0].keys()
    assert all(tensor.isfinite().all() for tensor in pack(method.result(state))[0].values())
    assert sum("clusters" in client.state for client in clients) >= 2


@pytest.mark.parametrize("spoil", [spoiled.shorter, spoiled.wider, spoiled.in_words, spoiled.poorer])
@pytest.mark.parametrize("name", NAMES)
def test_a_reply_that_is_not_as_it_must_be_counts_as_missing(name, spoil, monkeypatch: pytest.MonkeyPatch):
    """Whatever a client sends once all have begun, the others go on."""
    clients = make_clients()
    method, fed = method_of(name), LocalFederation(clients, seed=3)
    state, missing = method.init(fed), set()
    spoiled.by(1, spoil, monkeypatch)
    while not state.finished:
        state, record = method.step(fed, state)
        missing |= set(record.missing)
    assert missing <= {1}
    assert all("clusters" in client.state for client in clients)


@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_never_takes_part_is_assigned_by_the_result(name):
    clients = make_clients()
    method, fed = method_of(name), LocalFederation(clients, seed=3)
    fed.leave({1})
    state = method.init(fed)
    while not state.finished:
        state, _ = method.step(fed, state)
    assert [("clusters" in client.state) for client in clients] == [True, False, True]
    assert method.predict(method.result(state), clients[1].x).shape == (len(clients[1]),)


@pytest.mark.parametrize("name", NAMES)
def test_no_sample_leaves_its_client(name, monkeypatch: pytest.MonkeyPatch):
    """In whatever shape: by rows or columns, no six numbers are a sample's. Yardsticks show that it would be seen."""
    clients = make_clients()
    rows = torch.cat([client.x for client in clients]).double()
    deliver, crossed = LocalFederation.deliver, []

    def listen(fed: LocalFederation, *asked: Any) -> Any:
        for i, reply in deliver(fed, *asked):
            crossed.extend(pack(reply)[0].values())
            yield i, reply

    monkeypatch.setattr(LocalFederation, "deliver", listen)
    run(name, clients)
    long = [one for one in crossed if one.is_floating_point() and one.numel() >= 6]
    if not long:  # nothing but hidden sums, integers that look random
        assert name == "kin-graph"
        assert any(one.dtype == torch.int64 for one in crossed)
        return
    ways = [way for one in long for way in (one, one.transpose(0, -1))]
    parts = torch.cat([way.double().flatten().unfold(0, 6, 1) for way in ways])
    distances = torch.cdist(alike(parts, rows), rows, compute_mode="donot_use_mm_for_euclid_dist").flatten()
    assert float(distances.min()) == 0 if name in MOVES_DATA else not (distances <= NEAR).any()


def alike(parts: Tensor, rows: Tensor) -> Tensor:
    """Those parts whose first number is nearly a row's: millions were compared for nothing."""
    first = rows[:, 0].sort().values
    begun, ended = (torch.searchsorted(first + side, parts[:, 0].contiguous()) for side in (-NEAR, NEAR))
    return parts[begun > ended]


@pytest.mark.parametrize("name", NAMES)
def test_a_client_may_hold_a_single_sample(name):
    clients = make_clients((1, 24, 30))
    run(name, clients)
    assert clients[0].state["clusters"].shape == (1,)


@pytest.mark.parametrize("name", NAMES)
def test_all_samples_need_one_shape(name):
    clients = [Client(0, torch.rand(12, 3)), Client(1, torch.rand(12, 4))]
    with pytest.raises(FedkinError, match="all clients need the same"):
        method_of(name).init(LocalFederation(clients))
