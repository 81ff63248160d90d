"""Clustering by one message: the method, its tasks, its encoder, and what flipped bits do."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pictures
import planted
from fedkin.core import Client
from fedkin.methods.clients import embedding
from fedkin.methods.clients import embedding as tasks
from fedkin.methods.clients.embedding import EmbeddingMethod
from fedkin.nn.encoder import Encoder, Pretrained
from fedkin.privacy.randomised_response import unpacked

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


@pytest.mark.parametrize("epsilon", [0.5, 100.0, 400.0])
def test_a_budget_sets_how_often_bits_are_flipped(epsilon):
    done = planted.run(EmbeddingMethod(**SETTINGS, epsilon=epsilon), pictures.clients())
    found = done.values[0]["clustering"]
    assert found["flip"] == pytest.approx(1 / (1 + math.exp(epsilon / BITS)))
    assert found["epsilon"] == pytest.approx(epsilon)
    assert done.result["flip"] == found["flip"]
    wrong = float((done.states[-1].messages != true_messages(done)).double().mean())
    assert wrong == pytest.approx(found["flip"], abs=5 * 0.5 / math.sqrt(15 * BITS))


SPEC = {"name": "dense-autoencoder", "shape": [1, pictures.SIDE, pictures.SIDE], "output": "linear"}
ENCODER = Encoder.of(SPEC)
VECTOR = ENCODER.initial(torch.Generator().manual_seed(3))
SGD: dict[str, Any] = {"epochs": 1, "steps": 1, "batch_size": 1000, "optimizer": "sgd", "learning_rate": 0.5}
ADAM = SGD | {"optimizer": "adam", "steps": None, "batch_size": 6, "learning_rate": 0.01}


def how(**options: Any) -> dict[str, Any]:
    """What the server asks for; one class more than clients have."""
    plain = {"encoder": SPEC, "vector": VECTOR, "segments": pictures.CLASSES}
    return plain | {"flip": 0.0} | options


def message(client: Client, seed: int = 0, **options: Any) -> torch.Tensor:
    """The client's bits ``(segments, width)`` in one exchange."""
    asked = how(**options)
    client.rng = torch.Generator().manual_seed(seed)
    (reply,) = tasks.embed.run([client], [asked])
    bits = asked["segments"] * Encoder.of(asked["encoder"]).width
    assert list(reply) == ["bits"]
    assert reply["bits"].dtype == torch.uint8
    assert reply["bits"].shape == (math.ceil(bits / 8),)
    return unpacked(reply["bits"], bits).view(asked["segments"], -1)


def codes(x: torch.Tensor) -> torch.Tensor:
    return ENCODER.module(VECTOR).encoder(x).detach()


def rounded(code: torch.Tensor) -> list[int]:
    """Min-max and rounding of one segment, number by number."""
    values = code.double().tolist()
    return [round((value - min(values)) / (max(values) - min(values))) for value in values]


def by_hand(client: Client) -> list[list[int]]:
    return [rounded(codes(client.x[client.y == label]).mean(0)) for label in range(pictures.CLASSES)]


def test_a_message_is_the_mean_code_of_every_class_rounded_segment_by_segment():
    for number in range(5):
        client = pictures.client(number, number % 4)
        assert message(client).tolist() == by_hand(client)


def test_missing_classes_are_uniform_noise_drawn_once_and_by_each_client_for_itself():
    clients = [pictures.client(number, classes=[0, 1, 2]) for number in range(60)]
    first = torch.stack([message(site, seed=site.id)[3] for site in clients])
    assert torch.equal(first, torch.stack([message(site, seed=1000 + site.id)[3] for site in clients]))
    assert len(first.unique(dim=0)) == 60
    share = first.double().mean(0)
    assert float(share.mean()) == pytest.approx(0.5, abs=0.05)
    assert float((share - 0.5).abs().max()) < 0.25  # no number of the code is special
    assert bool((first.amax(1) == 1).all())  # it is normalised as other classes are
    assert bool((first.amin(1) == 0).all())


@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(0, pictures.CLASSES - 1))
def test_after_a_change_of_the_data_only_bits_that_changed_may_differ(seed, changed):
    client = pictures.client(seed)
    before, true = message(client, seed, flip=0.3), torch.tensor(by_hand(client))
    of_class = client.y == changed
    client.x[of_class] = client.x[of_class].rot90(1, (2, 3))
    after, now = message(client, seed + 1, flip=0.3), torch.tensor(by_hand(client))
    assert not torch.equal(now, true)
    assert torch.equal(after[now == true], before[now == true])
    client.x[of_class] = client.x[of_class].rot90(-1, (2, 3))
    assert torch.equal(message(client, seed + 2, flip=0.3), before)


def file(
    folder: Path, shape: tuple[int, ...] = (1, pictures.SIDE, pictures.SIDE), output: str = "linear"
) -> Pretrained:
    encoder = Encoder.of({"name": "dense-autoencoder", "shape": shape, "output": output})
    made = Pretrained(encoder.spec(), encoder.initial(torch.Generator().manual_seed(9)), {"epochs": 1})
    made.save(folder / "encoder")
    return made


def test_the_encoder_is_trained_first_and_then_never_again():
    settings = TRAINING | {"pretraining_rounds": 4, "pretraining_steps": 100, "batch_size": 5}
    done = planted.run(EmbeddingMethod(**settings), pictures.clients())
    assert [values["phase"] for values in done.values] == ["pre-training"] * 4 + ["embedding"] + ["training"] * 2
    vectors = [state.vector for state in done.states]
    assert not any(torch.equal(vectors[at], vectors[at + 1]) for at in range(4))
    assert all(torch.equal(vector, vectors[4]) for vector in vectors[5:])
    assert [len(record.answered) for record in done.records] == [8] * 4 + [15] * 3
    assert len({tuple(record.answered) for record in done.records[:4]}) > 1
    errors = [values["reconstruction"] for values in done.values[:4]]
    assert errors[-1] < 0.9 * errors[0]
    x = torch.cat([client.x for client in done.fed.clients.values()])
    encoder = Encoder.of(done.result["encoder"])
    before, after = ((encoder.module(vector)(x) - x).square().mean() for vector in (vectors[0], vectors[-1]))
    assert after < 0.9 * before
    assert planted.same_partition(done.labels, pictures.TURNS)


def test_the_encoder_of_a_file_is_used_as_it_is(tmp_path):
    made = file(tmp_path)
    done = planted.run(EmbeddingMethod(**TRAINING, encoder=str(tmp_path / "encoder")), pictures.clients())
    assert [values["phase"] for values in done.values] == ["embedding", "training", "training"]
    assert torch.equal(done.states[-1].vector, made.vector)
    assert torch.equal(done.result["vector"], made.vector)
    assert planted.same_partition(done.labels, pictures.TURNS)
