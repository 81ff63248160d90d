"""Where the encoder of a clustering by embeddings comes from: a file, rounds of pre-training, or both."""

import copy
from pathlib import Path

import pytest
import torch

import pictures
import planted
from fedkin.core import Client, FedkinError
from fedkin.core.seeds import derive_generator
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.embedding import embedding
from fedkin.methods.clients.embedding.embedding import EmbeddingMethod
from fedkin.nn.encoder import Encoder, Pretrained

TRAINING = pictures.TRAINING | {"rounds": 2}


def file(
    folder: Path, shape: tuple[int, ...] = (1, pictures.SIDE, pictures.SIDE), output: str = "linear"
) -> Pretrained:
    encoder = Encoder.of({"name": "dense-autoencoder", "shape": shape, "output": output})
    made = Pretrained(encoder.spec(), encoder.initial(torch.Generator().manual_seed(9)), {"epochs": 1})
    made.save(folder / "encoder")
    return made


def test_the_encoder_is_trained_first_and_then_never_again():
    settings = TRAINING | {"pretraining_rounds": 4, "pretraining_learning_rate": 0.01, "batch_size": 5}
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
    assert encoder.errors(vectors[-1], x).mean() < 0.9 * encoder.errors(vectors[0], x).mean()
    assert planted.same_partition(done.labels, pictures.TURNS)


def test_a_round_of_pre_training_is_federated_averaging_of_the_encoder():
    clients = [pictures.client(number, samples=10 + 5 * number) for number in range(4)]
    settings = TRAINING | {"pretraining_rounds": 1, "pretraining_participation": 1.0, "pretraining_epochs": 2}
    method = EmbeddingMethod(**(settings | {"batch_size": 5}), pretraining_steps=1)
    fed = LocalFederation(copy.deepcopy(clients), seed=4, workers=1)
    state = method.init(fed)
    training = {"epochs": 2, "batch_size": 5, "optimizer": "adam", "learning_rate": 1e-3}
    payload = {"encoder": state.encoder, "vector": state.vector, "training": training, "steps": 1}
    after, record = method.step(fed, state)
    for site in clients:
        site.rng = derive_generator(4, "client", site.id, fed.exchange)
    replies = embedding.train_encoder.run(clients, [payload] * 4)
    expected = sum(len(site) * reply["update"] for site, reply in zip(clients, replies, strict=True)) / 70
    assert torch.allclose(after.vector - state.vector, expected, atol=1e-7)
    assert record.values["reconstruction"] == pytest.approx(sum(reply["loss"] for reply in replies) / 4)


def test_a_pre_training_round_without_an_answer_changes_nothing():
    fed = LocalFederation(pictures.clients(), workers=1)
    method = EmbeddingMethod(**(TRAINING | {"pretraining_rounds": 1}))
    state = method.init(fed)
    fed.failures = {(fed.exchange + 1, client) for client in range(15)}
    after, record = method.step(fed, state)
    assert record.values["phase"] == "pre-training"
    assert record.values["reconstruction"] is None
    assert len(record.missing) == 8
    assert torch.equal(after.vector, state.vector)
    after, record = method.step(fed, after)
    assert record.values["phase"] == "embedding"
    assert planted.same_partition(after.labels.tolist(), pictures.TURNS)


def test_the_encoder_of_a_file_is_used_as_it_is(tmp_path):
    made = file(tmp_path)
    done = planted.run(EmbeddingMethod(**TRAINING, encoder=str(tmp_path / "encoder")), pictures.clients())
    assert [values["phase"] for values in done.values] == ["embedding", "training", "training"]
    assert torch.equal(done.states[-1].vector, made.vector)
    assert torch.equal(done.result["vector"], made.vector)
    assert planted.same_partition(done.labels, pictures.TURNS)


def test_the_encoder_of_a_file_may_be_adapted_to_the_clients(tmp_path):
    made = file(tmp_path)
    method = EmbeddingMethod(**TRAINING, encoder=str(tmp_path / "encoder"), pretraining_rounds=2)
    done = planted.run(method, pictures.clients())
    assert [values["phase"] for values in done.values[:3]] == ["pre-training", "pre-training", "embedding"]
    assert torch.equal(done.states[0].vector, made.vector)
    assert not torch.equal(done.states[2].vector, made.vector)


def test_without_a_file_there_are_ten_rounds_of_pre_training_and_with_one_none(tmp_path):
    assert EmbeddingMethod().pretraining == 10
    assert EmbeddingMethod(encoder="some").pretraining == 0
    assert EmbeddingMethod(encoder="some", pretraining_rounds=3).pretraining == 3


def test_a_file_that_does_not_fit_or_is_none_is_refused(tmp_path):
    fed = LocalFederation(pictures.clients(), workers=1)
    file(tmp_path, shape=(1, 28, 28))
    with pytest.raises(FedkinError, match=r"trained on samples of shape \(1, 28, 28\); the clients' have \(1, 8, 8\)"):
        EmbeddingMethod(encoder=str(tmp_path / "encoder")).init(fed)
    with pytest.raises(FedkinError, match="holds no encoder"):
        EmbeddingMethod(encoder=str(tmp_path / "nothing")).init(fed)
    (tmp_path / "text").write_text("encoder")
    with pytest.raises(FedkinError, match="holds no encoder"):
        EmbeddingMethod(encoder=str(tmp_path / "text")).init(fed)


@pytest.mark.parametrize(("change", "output"), [(torch.sigmoid, "sigmoid"), (lambda x: x, "linear")])
def test_the_encoder_reconstructs_what_clients_have(change, output):
    sites = pictures.clients()
    for client in sites:
        client.x = change(client.x)
    state = EmbeddingMethod(**TRAINING, pretraining_rounds=0).init(LocalFederation(sites, workers=1))
    assert state.encoder == {"name": "dense-autoencoder", "shape": [1, 8, 8], "output": output}


def test_images_with_colour_get_a_convolutional_encoder():
    fed = LocalFederation([Client(0, torch.zeros(4, 3, 8, 8), torch.arange(4))])
    assert EmbeddingMethod(**TRAINING).init(fed).encoder["name"] == "conv-autoencoder"
    assert EmbeddingMethod(**TRAINING, autoencoder="dense-autoencoder").init(fed).encoder["name"] == "dense-autoencoder"
