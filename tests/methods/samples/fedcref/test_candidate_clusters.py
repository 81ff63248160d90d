import dataclasses

import pytest
import torch

from fedkin.core import Client
from fedkin.core.payload import pack, unpack
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.fedcref.fedcref import FedCRefMethod
from fedkin.methods.samples.fedcref.fedcref_state import FedCRefState, candidate_pairs

SWIFT = FedCRefMethod(rounds=1, min_steps=8, local_epochs=1, max_iterations=2, hidden=(4, 2), candidates=1)


def blobs(n_clients=6, samples=20):
    """Clients with two of three clusters."""
    rng, centres = torch.Generator().manual_seed(0), torch.tensor([[0.1, 0.1], [0.5, 0.9], [0.9, 0.1]]).repeat(1, 4)
    clients = []
    for i in range(n_clients):
        kinds = torch.tensor([i % 3, (i + 1) % 3]).repeat_interleave(samples)
        x = (centres[kinds] + 0.05 * torch.randn(len(kinds), 8, generator=rng)).clamp(0, 1)
        clients.append(Client(i, x, state={"given": (kinds == (i + 1) % 3).long()}))
    return clients


def run(method, fed, state=None, steps=99):
    state = method.init(fed) if state is None else state
    while not state.finished and state.steps < steps:
        state, _ = method.step(fed, state)
    return state


def test_candidates_are_nearest_ones_and_those_at_doubling_ranks():
    line = torch.arange(20.0)[:, None]
    pairs = set(map(tuple, candidate_pairs(line, range(20), 2).tolist()))
    assert {b for a, b in pairs if a == 0} >= {1, 2, 4, 8, 16}
    assert (0, 12) not in pairs
    assert all(a < b for a, b in pairs)


@pytest.mark.parametrize("rule", ["held-out", "paper"])
def test_clusters_are_found_and_clients_get_no_other_models(rule, monkeypatch):
    method = dataclasses.replace(SWIFT, associations=rule, threshold=0.9, local_epochs=30, min_steps=90)
    fed, received = LocalFederation(blobs(12), seed=0), {}
    ask = LocalFederation.ask

    def listen(fed, task, payloads, expected=None):
        if task.name.endswith("score"):
            received.update({i: len(payload["models"]) for i, payload in payloads.items()})
        return ask(fed, task, payloads, expected)

    monkeypatch.setattr(LocalFederation, "ask", listen)
    state = run(method, fed, steps=1)
    assert 0 < max(received.values()) < 22
    assert state.statistics.numel() == 0
    assert len(state.pairs) == len(state.pair_statistics) > 0
    if rule == "held-out":
        assert [len(members) for members in state.communities] == [8, 8, 8]


def test_a_run_goes_on_from_its_state_alone():
    tensors, text = pack(run(SWIFT, (fed := LocalFederation(blobs(), seed=0)), steps=1).tree())
    again = run(SWIFT, fed, FedCRefState(**unpack(tensors, text)))
    assert pack(again.tree())[1] == pack(run(SWIFT, LocalFederation(blobs(), seed=0)).tree())[1]


@pytest.mark.parametrize("seed", range(2))
def test_it_survives_any_loss(seed):
    fed = LocalFederation(blobs(), seed=seed, drop_rate=0.4)
    fed.min_clients = 1
    assert run(SWIFT, fed).finished


def test_a_profile_of_another_width_makes_a_client_missing():
    class Wrong(LocalFederation):
        def deliver(self, task, payloads):
            for client, reply in super().deliver(task, payloads):
                wrong = client == 2 and "profiles" in reply
                yield client, {**reply, "profiles": reply["profiles"][:, 1:]} if wrong else reply

    fed = Wrong(blobs(), seed=0)
    _, record = SWIFT.step(fed, SWIFT.init(fed))
    assert list(record.missing) == [2]
    assert "profiles" in record.missing[2]
