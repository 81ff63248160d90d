"""A client's message, computed by hand from algorithm 1, and what a client remembers of it."""

import copy
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pictures
from fedkin.core import Client, FedkinError, Task
from fedkin.core.payload import payload_bytes
from fedkin.methods.clients.embedding import embedding as tasks
from fedkin.methods.clients.ladd import describe_style
from fedkin.nn.descent import LocalTraining, train_locally
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


def test_the_vector_may_be_normalised_as_a_whole():
    client = pictures.client(0)
    client.x[client.y == 0] *= 5  # so that this class alone spans the range
    means = torch.stack([codes(client.x[client.y == label]).mean(0) for label in range(pictures.CLASSES)])
    expected = rounded(means.flatten())
    assert message(client, normalise="vector").flatten().tolist() == expected
    assert message(client).flatten().tolist() != expected


def test_the_statistics_may_be_those_of_a_class_at_a_client():
    spec = {"name": "conv-autoencoder", "shape": [3, 8, 8], "output": "linear"}
    vector = Encoder.of(spec).initial(torch.Generator().manual_seed(1))
    x = torch.randn(12, 3, 8, 8, generator=torch.Generator().manual_seed(2)) + 1
    client = Client(0, x, torch.arange(12) % 2)
    found = {"encoder": spec, "vector": vector, "segments": 2}
    module = Encoder.of(spec).module(vector).train()
    expected = [rounded(module.encoder(x[client.y == label]).detach().mean(0)) for label in (0, 1)]
    assert message(client, **found, batch_statistics=True).tolist() == expected
    assert message(Client(0, x, client.y), **found).tolist() != expected


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


def test_a_class_that_was_missing_counts_once_it_has_samples():
    client = pictures.client(0, classes=[0, 1, 2, 4])
    before = message(client)
    full = pictures.client(0)
    client.x, client.y = full.x, full.y
    assert message(client).tolist() == by_hand(full)
    client.x, client.y = full.x[full.y != 3], full.y[full.y != 3]
    assert torch.equal(message(client)[3], before[3])  # what was drawn then


def test_a_class_that_nobody_had_when_clusters_were_formed_has_no_place():
    client = pictures.client(0)
    plain = message(pictures.client(0), segments=3)
    assert message(client, segments=3).tolist() == plain.tolist() == by_hand(client)[:3]


@pytest.mark.parametrize("form", ["classes", "prototypes"])
@pytest.mark.parametrize("flip", [0.0, 0.3, 0.5])
def test_two_messages_of_the_same_data_are_equal(form, flip):
    client = pictures.client(0, classes=[0, 2, 4])
    first = message(client, seed=1, form=form, flip=flip)
    for seed in range(2, 8):
        assert torch.equal(message(client, seed=seed, form=form, flip=flip), first)


def test_clients_flip_each_for_itself():
    one, other = (message(pictures.client(0), seed=seed, flip=0.5) for seed in (1, 2))
    assert 0.2 < float((one != other).double().mean()) < 0.8


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


def test_prototypes_are_centres_of_clusters_of_codes_in_some_order():
    """Pictures of a class lie so close together that clusters are classes."""
    client = pictures.client(0, samples=40)
    found = message(client, form="prototypes")
    assert sorted(found.tolist()) == sorted(by_hand(client))
    unlabelled = Client(0, client.x)
    assert torch.equal(message(unlabelled, form="prototypes"), found)


def test_of_few_different_samples_there_are_few_prototypes_and_the_rest_is_filled():
    x = pictures.client(0).x[:3].repeat(4, 1, 1, 1)
    found = message(Client(0, x), form="prototypes", segments=6)
    own = [rounded(code) for code in codes(x[:3])]
    assert all(segment in found.tolist() for segment in own)
    assert len(found) == 6
    assert not torch.equal(found, message(Client(0, x), seed=1, form="prototypes", segments=6))


def test_classes_need_labels():
    with pytest.raises(FedkinError, match="Client 7 has no labels"):
        message(Client(7, pictures.client(0).x))


def test_what_is_remembered_stays_at_the_client():
    client = pictures.client(0, classes=[0])
    asked = how(flip=0.1)
    (reply,) = tasks.embed.run([client], [asked])
    assert set(client.state) == {tasks.ANSWERS, tasks.FILLING}
    assert payload_bytes(reply) < 13 + 60  # 100 bits and some JSON


def test_the_range_of_the_samples_is_reported():
    client = Client(0, torch.tensor([[-2.0, 0.5], [0.0, 3.0]]))
    assert tasks.extent.run([client], [{}]) == [{"least": -2.0, "greatest": 3.0}]


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


@pytest.mark.parametrize(("steps", "passes"), [(1, 2), (4, 2), (5, 3), (8, 4)])
def test_clients_with_few_samples_make_more_passes(steps, passes):
    """Twenty samples are two batches of ten, and two passes are four steps."""
    training = ADAM | {"batch_size": 10, "epochs": 2}
    client = pictures.client(0)
    client.rng = torch.Generator().manual_seed(1)
    payload = {"encoder": SPEC, "vector": VECTOR, "training": training, "steps": steps}
    (reply,) = tasks.train_encoder.run([client], [payload])
    found = LocalTraining(**(training | {"epochs": passes}))
    model, loss = train_locally(ENCODER, VECTOR, client.x, client.x, torch.Generator().manual_seed(1), found)
    assert torch.equal(reply["update"], model - VECTOR)
    assert reply["loss"] == loss


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
