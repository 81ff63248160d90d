"""Clustering by private embeddings, from the encoder to the newcomer."""

import copy
import math
from typing import Any

import pytest
import torch

import pictures
import planted
from fedkin.core import Client
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.client_method import UNKNOWN
from fedkin.methods.clients.embedding import embedding
from fedkin.methods.clients.embedding.embedding import EmbeddingMethod

BITS = 20 * pictures.CLASSES
TRAINING = pictures.TRAINING | {"rounds": 2}
SETTINGS = TRAINING | {"pretraining_rounds": 0}
"""An encoder that nobody trained is a random projection, and good enough."""


def true_messages(done: planted.Run) -> torch.Tensor:
    """What all clients would say without flips."""
    state, made = done.states[0], []
    for client in done.fed.clients.values():
        found = done.result | {"flip": 0.0}
        bits, _ = embedding.true_bits(copy.copy(client), found | {"vector": done.states[-1].vector})
        assert bits.shape == (state.segments, 20)
        made.append(bits.flatten())
    return torch.stack(made)


@pytest.mark.parametrize("flip", [0.0, 0.1])
@pytest.mark.parametrize("clustering", ["gap", "exact"])
def test_planted_clusters_are_found(flip, clustering):
    done = planted.run(EmbeddingMethod(**SETTINGS, flip=flip, clustering=clustering), pictures.clients(), seed=1)
    assert planted.same_partition(done.labels, pictures.TURNS)
    assert done.exchanges == [1, 1, 1]
    assert [values["phase"] for values in done.values] == ["embedding", "training", "training"]
    assert done.result["n_clusters"] == 3
    assert done.result["models"].shape[0] == 3


def test_with_flips_so_many_of_them_are_wrong():
    done = planted.run(EmbeddingMethod(**SETTINGS, flip=0.3), pictures.clients())
    wrong = (done.states[-1].messages != true_messages(done)).double().mean(1)
    assert float(wrong.mean()) == pytest.approx(0.3, abs=0.06)
    assert float(wrong.min()) > 0


@pytest.mark.parametrize("epsilon", [0.5, 100.0, 400.0])
def test_a_budget_sets_how_often_bits_are_flipped(epsilon):
    done = planted.run(EmbeddingMethod(**SETTINGS, epsilon=epsilon), pictures.clients())
    found = done.values[0]["clustering"]
    assert found["flip"] == pytest.approx(1 / (1 + math.exp(epsilon / BITS)))
    assert found["epsilon"] == pytest.approx(epsilon)
    assert done.result["flip"] == found["flip"]
    wrong = float((done.states[-1].messages != true_messages(done)).double().mean())
    assert wrong == pytest.approx(found["flip"], abs=5 * 0.5 / math.sqrt(15 * BITS))


def test_clients_may_choose_for_themselves_and_the_least_private_is_reported():
    done = planted.run(EmbeddingMethod(**SETTINGS, flips=[0.0, 0.5, 0.2]), pictures.clients())
    wrong = (done.states[-1].messages != true_messages(done)).double().mean(1)
    assert wrong[0::3].tolist() == [0.0] * 5
    assert float(wrong[1::3].mean()) == pytest.approx(0.5, abs=0.1)
    assert float(wrong[2::3].mean()) == pytest.approx(0.2, abs=0.1)
    found = done.values[0]["clustering"]
    assert found["flip"] == [0.0, 0.5, 0.2]
    assert found["epsilon_bit"] == math.inf
    assert done.result["flip"] == 0.5  # a newcomer says no more than anyone


def unlabelled() -> list[Client]:
    return [Client(client.id, client.x) for client in pictures.clients()]


def test_without_labels_a_run_ends_with_the_clusters():
    method = EmbeddingMethod(**SETTINGS, form="prototypes", prototypes=pictures.CLASSES, flip=0.0)
    done = planted.run(method, unlabelled(), seed=1)
    assert len(done.records) == 1
    assert done.values[0]["phase"] == "embedding"
    assert planted.same_partition(done.labels, pictures.TURNS)
    assert done.result["n_clusters"] == 3
    assert done.result["models"].shape == (3, 0)
    for turn in range(3):
        new = pictures.client(70 + turn, turn, samples=40)
        own = EmbeddingMethod.assign(done.result, Client(0, new.x, None, rng=torch.Generator().manual_seed(turn)))
        assert own == done.labels[pictures.TURNS.index(turn)]


@pytest.mark.parametrize("flip", [0.0, 0.1])
def test_a_newcomer_finds_its_cluster_by_one_message(flip):
    done = planted.run(EmbeddingMethod(**SETTINGS, flip=flip), pictures.clients(), seed=1)
    assert done.result["centroids"].shape == (3, BITS)
    for turn in range(3):
        for number in range(4):
            new = pictures.client(70 + number, turn)
            own = EmbeddingMethod.assign(
                done.result, Client(0, new.x, new.y, rng=torch.Generator().manual_seed(number))
            )
            assert own == done.labels[pictures.TURNS.index(turn)]


class Corrupting(LocalFederation):
    """Client 1 sends too few bytes, client 4 numbers that are not finite, client 7 nothing that was asked for."""

    def deliver(self, task, payloads):
        for client, reply in super().deliver(task, payloads):
            if isinstance(reply, dict) and "bits" in reply:
                bad: dict[int, dict[str, Any]] = {
                    1: {"bits": reply["bits"][:-1]},
                    4: {"bits": torch.full(reply["bits"].shape, torch.nan)},
                    7: {"message": reply["bits"]},
                }
                reply = bad.get(client, reply)
            yield client, reply


def test_messages_that_cannot_be_used_are_refused():
    fed = Corrupting(pictures.clients(), workers=1)
    method = EmbeddingMethod(**SETTINGS)
    state = method.init(fed)
    for _ in range(3):
        state, record = method.step(fed, state)
        assert record.missing == {
            1: "'bits' has shape (12,) where (13,) was expected",
            4: "'bits' is not finite",
            7: "'bits' is absent",
        }
        assert record.answered == [i for i in range(15) if i not in (1, 4, 7)]
        assert state.labels[[1, 4, 7]].tolist() == [UNKNOWN] * 3
    rest = record.answered
    assert planted.same_partition([record.values["labels"][i] for i in rest], [pictures.TURNS[i] for i in rest])


@pytest.mark.parametrize("seed", range(2))
def test_lost_clients_are_no_accident(seed):
    turns = [0, 1, 2] * 8
    settings = TRAINING | {"rounds": 5, "pretraining_rounds": 2}
    done = planted.run(EmbeddingMethod(**settings, refresh=2), pictures.clients(turns), seed=seed, drop_rate=0.2)
    assert len(done.records) == 8
    assert any(record.missing for record in done.records)
    for record in done.records:
        assert not set(record.answered) & set(record.missing)
        assert {"phase", "labels", "sizes", "clusters"} <= set(record.values)
    assert bool(done.states[-1].models.isfinite().all())
    known = [i for i in range(24) if done.labels[i] != UNKNOWN]
    assert len(known) > 20
    assert planted.same_partition([done.labels[i] for i in known], [turns[i] for i in known])


def test_a_message_that_is_no_bytes_is_refused_by_name():
    class Odd(LocalFederation):
        def deliver(self, task, payloads):
            for client, reply in super().deliver(task, payloads):
                odd = client == 2 and "bits" in reply
                yield client, {"bits": reply["bits"].float()} if odd else reply

    fed = Odd(pictures.clients(), workers=1)
    method = EmbeddingMethod(**SETTINGS)
    state, record = method.step(fed, method.init(fed))
    assert record.missing == {2: "'bits' is of torch.float32 where torch.uint8 was expected"}
    assert int(state.labels[2]) == -1
