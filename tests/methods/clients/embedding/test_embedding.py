"""Clustering by private embeddings, from the encoder to the newcomer."""

import copy
import math
from typing import Any

import pytest
import torch

import pictures
import planted
from fedkin.core import Client, FedkinError
from fedkin.core.payload import payload_bytes
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


def test_clients_that_are_all_alike_are_one_cluster_and_said_to_be():
    done = planted.run(EmbeddingMethod(**SETTINGS), pictures.clients([0] * 12))
    assert done.labels == [0] * 12
    assert done.values[0]["clustering"]["separable"] is False
    assert "method.message = 'sums' finds clusters of few clients" in done.values[0]["note"]
    assert done.values[0]["clustering"]["cut"] is None


def test_the_step_of_the_clustering_tells_about_it():
    done = planted.run(EmbeddingMethod(**SETTINGS, flip=0.2), pictures.clients())
    record = done.records[0]
    assert record.answered == list(range(15))
    found = record.values["clustering"]
    assert found["mode"] == "exact"
    assert found["bits"] == BITS
    assert found["flip"] == 0.2
    assert found["epsilon_bit"] == pytest.approx(math.log(0.8 / 0.2))
    assert found["epsilon"] == pytest.approx(BITS * math.log(0.8 / 0.2))
    assert found["heights"] == sorted(found["heights"], reverse=True)
    assert len(found["heights"]) == 14
    assert all("clustering" not in values for values in done.values[1:])


def test_without_flips_the_server_has_the_true_bits():
    done = planted.run(EmbeddingMethod(**SETTINGS, flip=0.0), pictures.clients())
    assert done.states[-1].messages.dtype == torch.uint8
    assert torch.equal(done.states[-1].messages, true_messages(done))
    assert done.values[0]["clustering"]["epsilon"] == math.inf


def test_with_flips_so_many_of_them_are_wrong():
    done = planted.run(EmbeddingMethod(**SETTINGS, flip=0.3), pictures.clients())
    wrong = (done.states[-1].messages != true_messages(done)).double().mean(1)
    assert float(wrong.mean()) == pytest.approx(0.3, abs=0.06)
    assert float(wrong.min()) > 0


def test_eight_bits_cross_in_a_byte():
    method = EmbeddingMethod(**SETTINGS)
    fed = LocalFederation(pictures.clients(), workers=1)
    state = method.init(fed)
    before = fed.traffic.received
    method.step(fed, state)
    each = (fed.traffic.received - before) / 15
    assert each == payload_bytes({"bits": torch.zeros(math.ceil(BITS / 8), dtype=torch.uint8)})
    assert each < BITS / 8 + 50


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


def test_a_budget_and_own_choices_contradict_each_other():
    with pytest.raises(FedkinError, match="'epsilon' and 'flips' were both given"):
        EmbeddingMethod(epsilon=1.0, flips=[0.1])


def test_classes_that_some_clients_lack_do_not_shorten_a_message():
    sites = pictures.clients()
    for number in (0, 5):
        sites[number] = pictures.client(number, pictures.TURNS[number], classes=[0, 1, 3])
    done = planted.run(EmbeddingMethod(**SETTINGS, flip=0.0), sites)
    assert done.records[0].missing == {}
    assert done.states[-1].messages.shape == (15, BITS)
    missing = done.states[-1].messages.view(15, pictures.CLASSES, -1)[[0, 5]][:, [2, 4]]
    assert len(missing.flatten(0, 1).unique(dim=0)) == 4  # noise, each its own
    assert planted.same_partition(done.labels, pictures.TURNS)


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


def test_if_one_client_has_no_labels_no_model_is_trained():
    sites = pictures.clients()
    sites[3].y = None
    done = planted.run(EmbeddingMethod(**SETTINGS, form="prototypes", prototypes=5, flip=0.0), sites, seed=1)
    assert len(done.records) == 1
    assert done.result["models"].shape[1] == 0


def test_prototypes_of_labelled_clients_lead_to_models():
    done = planted.run(
        EmbeddingMethod(**SETTINGS, form="prototypes", prototypes=5, flip=0.0), pictures.clients(), seed=1
    )
    assert len(done.records) == 3
    assert planted.same_partition(done.labels, pictures.TURNS)
    assert done.result["models"].shape[1] > 0
    assert done.values[0]["clustering"]["bits"] == 5 * 20


def test_prototypes_of_later_messages_are_in_the_order_of_the_first():
    method = EmbeddingMethod(**SETTINGS, form="prototypes", prototypes=5, flip=0.0, refresh=1)
    fed = LocalFederation(pictures.clients(), workers=1)
    start = method.init(fed)
    fed.failures = {(fed.exchange + 1, 6)}
    first, _ = method.step(fed, start)
    state = first
    for _ in range(2):
        state, record = method.step(fed, state)
        assert "moved" not in record.values
    others = [i for i in range(15) if i != 6]
    assert not bool(first.messages[6].any())
    assert torch.equal(state.messages[others], first.messages[others])
    assert planted.same_partition(state.labels.tolist(), pictures.TURNS)


def test_the_form_of_classes_needs_labels():
    with pytest.raises(FedkinError, match=r"Clients 0, 1, .* have no labels, which Embedding needs"):
        EmbeddingMethod(**SETTINGS).init(LocalFederation(unlabelled()))


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


def test_clients_themselves_are_assigned_where_they_are():
    done = planted.run(EmbeddingMethod(**SETTINGS, flip=0.0), pictures.clients(), seed=1)
    for client in done.fed.clients.values():
        own = EmbeddingMethod.assign(done.result, client)
        assert own == done.labels[client.id]


def test_a_newcomers_class_that_nobody_had_does_no_harm():
    done = planted.run(EmbeddingMethod(**SETTINGS, flip=0.0), pictures.clients(), seed=1)
    new = pictures.client(70, 1)
    x, y = torch.cat([new.x, new.x[:3]]), torch.cat([new.y, torch.full((3,), 9)])
    assert (
        EmbeddingMethod.assign(done.result, Client(0, x, y, rng=torch.Generator()))
        == done.labels[pictures.TURNS.index(1)]
    )


def test_messages_of_unchanged_data_tell_nothing_new():
    fed = LocalFederation(pictures.clients(), workers=1)
    method = EmbeddingMethod(**SETTINGS, flip=0.2, refresh=1)
    state, _ = method.step(fed, method.init(fed))
    first = state.messages
    for _ in range(2):
        state, _ = method.step(fed, state)
        assert torch.equal(state.messages, first)


def test_who_is_turned_moves_to_the_cluster_that_is_turned_alike():
    fed = LocalFederation(pictures.clients(), workers=1)
    method = EmbeddingMethod(**(SETTINGS | {"rounds": 4}), flip=0.1, refresh=1)
    state = method.init(fed)
    for _ in range(2):
        state, _ = method.step(fed, state)
    before = state.labels.tolist()
    fed.clients[0].x = fed.clients[0].x.rot90(1, (2, 3)).contiguous()
    after, record = method.step(fed, state)
    assert record.values["moved"] == [[0, before[0], before[pictures.TURNS.index(1)]]]
    assert planted.same_partition(after.labels.tolist(), [1, *pictures.TURNS[1:]])


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


def test_permuted_clients_are_in_the_permuted_clusters():
    order = [3, 7, 0, 11, 5, 14, 1, 9, 12, 6, 2, 10, 13, 4, 8]
    one = planted.run(EmbeddingMethod(**SETTINGS, flip=0.0), pictures.clients())
    other = planted.run(EmbeddingMethod(**SETTINGS, flip=0.0), planted.permuted(pictures.clients(), order))
    assert planted.same_partition(other.labels, [one.labels[old] for old in order])
    for new, old in enumerate(order):
        mine, theirs = (done.states[-1].models[done.labels[at]] for done, at in ((other, new), (one, old)))
        assert torch.allclose(mine, theirs, atol=1e-5)


@pytest.mark.parametrize("form", ["classes", "prototypes"])
def test_it_does_not_matter_how_many_clients_are_handed_to_a_task(form):
    settings = TRAINING | {"pretraining_rounds": 1, "batch_size": 5}
    ends = [
        planted.run(EmbeddingMethod(**settings, form=form, refresh=1), pictures.clients(), chunk=chunk).states[-1]
        for chunk in (1, 15)
    ]
    assert torch.equal(ends[0].messages, ends[1].messages)
    assert torch.equal(ends[0].models, ends[1].models)
    assert torch.equal(ends[0].vector, ends[1].vector)


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
