"""A client's message, computed by hand from algorithm 1, and what a client remembers of it."""

import copy
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pictures
from fedkin.core import Client, Task
from fedkin.methods.clients.embedding import embedding as tasks
from fedkin.methods.clients.ladd import describe_style
from fedkin.nn.encoder import Encoder
from fedkin.privacy.randomised_response import unpacked

SPEC = {"name": "dense-autoencoder", "shape": [1, pictures.SIDE, pictures.SIDE], "output": "linear"}
ENCODER = Encoder.of(SPEC)
VECTOR = ENCODER.initial(torch.Generator().manual_seed(3))
SGD: dict[str, Any] = {"epochs": 1, "steps": 1, "batch_size": 1000, "optimizer": "sgd", "learning_rate": 0.5}
ADAM = SGD | {"optimizer": "adam", "steps": None, "batch_size": 6, "learning_rate": 0.01}


def how(**options: Any) -> dict[str, Any]:
    """What the server asks for; one class more than clients have."""
    plain = {"encoder": SPEC, "vector": VECTOR, "form": "classes", "segments": pictures.CLASSES}
    return plain | {"normalise": "segment", "batch_statistics": False, "flip": 0.0} | options


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


@settings(max_examples=30)
@given(st.sets(st.integers(0, pictures.CLASSES - 1), min_size=1))
def test_messages_are_of_one_length_whatever_classes_a_client_has(held):
    client = pictures.client(0, classes=held)
    found = message(client)
    assert found.shape == (pictures.CLASSES, ENCODER.width)
    full = by_hand(pictures.client(0, classes=held)) if len(held) == pictures.CLASSES else None
    for label in held:
        expected = rounded(codes(client.x[client.y == label]).mean(0))
        assert found[label].tolist() == expected
        assert full is None or full[label] == expected


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


@pytest.mark.parametrize("form", ["classes", "prototypes"])
@pytest.mark.parametrize("flip", [0.0, 0.3, 0.5])
def test_two_messages_of_the_same_data_are_equal(form, flip):
    client = pictures.client(0, classes=[0, 2, 4])
    first = message(client, seed=1, form=form, flip=flip)
    for seed in range(2, 8):
        assert torch.equal(message(client, seed=seed, form=form, flip=flip), first)


@pytest.mark.parametrize("flip", [0.05, 0.2, 0.5])
def test_bits_are_flipped_as_often_as_set(flip):
    clients = [pictures.client(number % 3) for number in range(60)]
    wrong = [message(site, seed=at, flip=flip) != torch.tensor(by_hand(site)) for at, site in enumerate(clients)]
    share, count = float(torch.stack(wrong).double().mean()), 60 * pictures.CLASSES * ENCODER.width
    assert share == pytest.approx(flip, abs=5 * math.sqrt(flip * (1 - flip) / count))


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


def test_an_encoder_trains_by_the_gradient_of_its_mean_squared_error():
    client = pictures.client(0)
    payload = {"encoder": SPEC, "vector": VECTOR.clone(), "training": SGD, "steps": 1}
    (reply,) = tasks.train_encoder.run([client], [payload])
    module = ENCODER.module(VECTOR).train()
    error = (module(client.x) - client.x).square().mean()
    error.backward()
    gradient = torch.cat([part.grad.flatten() for part in module.parameters()])
    assert torch.allclose(reply["update"], -0.5 * gradient, atol=1e-6)
    assert reply["loss"] == pytest.approx(float(error.detach()), rel=1e-5)
    assert reply["samples"] == len(client)
    assert torch.equal(payload["vector"], VECTOR)


ASKED: list[tuple[Task, dict[str, Any]]] = [
    (tasks.extent, {}),
    (tasks.train_encoder, {"encoder": SPEC, "vector": VECTOR, "training": ADAM, "steps": 7}),
    (tasks.embed, how(flip=0.2)),
    (tasks.embed, how(flip=0.2, form="prototypes", segments=3)),
    (describe_style, {"style": "class", "window": 0.2, "segments": pictures.CLASSES}),
    (describe_style, {"style": "client", "window": 0.2, "segments": 1}),
]


@pytest.mark.parametrize(("asked", "payload"), ASKED)
def test_a_reply_does_not_depend_on_who_else_is_asked(asked, payload):
    clients = [pictures.client(number, number, classes=range(number, pictures.CLASSES)) for number in range(4)]
    for site in clients:
        site.rng = torch.Generator().manual_seed(site.id)
    apart = copy.deepcopy(clients)
    for site in apart:
        site.rng = torch.Generator().manual_seed(site.id)
    together = asked.run(clients, [payload] * 4)
    for site, own, reply in zip(apart, clients, together, strict=True):
        (alone,) = asked.run([site], [payload])
        assert alone.keys() == reply.keys()
        assert all(torch.equal(torch.as_tensor(alone[name]), torch.as_tensor(reply[name])) for name in reply)
        assert site.state.keys() == own.state.keys()
        assert all(torch.equal(site.state[name], own.state[name]) for name in site.state)
