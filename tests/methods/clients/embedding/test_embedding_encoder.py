"""Where the encoder of a clustering by embeddings comes from: a file, rounds of pre-training, or both."""

from pathlib import Path

import pytest
import torch

import pictures
import planted
from fedkin.core import FedkinError
from fedkin.engines.local import LocalFederation
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


def test_the_encoder_of_a_file_is_used_as_it_is(tmp_path):
    made = file(tmp_path)
    done = planted.run(EmbeddingMethod(**TRAINING, encoder=str(tmp_path / "encoder")), pictures.clients())
    assert [values["phase"] for values in done.values] == ["embedding", "training", "training"]
    assert torch.equal(done.states[-1].vector, made.vector)
    assert torch.equal(done.result["vector"], made.vector)
    assert planted.same_partition(done.labels, pictures.TURNS)


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
