import pytest
import torch

from fedkin.core import FedkinError
from fedkin.core.files import write_atomically
from fedkin.core.seeds import derive_generator
from fedkin.nn.encoder import Encoder, Pretrained
from fedkin.nn.resident import vector_of

pytestmark = pytest.mark.usefixtures("seeded_torch")
DENSE = {"name": "dense-autoencoder", "shape": [1, 28, 28], "output": "sigmoid"}
SMALL = {"name": "dense-autoencoder", "shape": [5], "output": "linear"}
CONV = {"name": "conv-autoencoder", "shape": [3, 16, 16], "output": "sigmoid"}
GREY = {"name": "conv-autoencoder", "shape": [1, 16, 8], "output": "linear"}
SPECS = [DENSE, SMALL, CONV, GREY]
NAMES = ["dense", "small", "colour", "grey"]


def rng(*path):
    return derive_generator(0, "encoder", *path)


def samples(spec, n, name="x"):
    return torch.rand(n, *spec["shape"], generator=rng(name))


def used(spec):
    """An encoder, and a model of it whose statistics and counters are not those it began with."""
    encoder = Encoder.of(spec)
    module = encoder.module(encoder.initial(rng("w"))).train()
    for i in range(3):
        module(samples(spec, 9, f"before {i}"))
    return encoder, vector_of(module)


@pytest.fixture
def trained():
    encoder, vector = used(CONV)
    return Pretrained(encoder.spec(), vector, {"epochs": 3, "data": "somewhere", "error": 0.25})


@pytest.mark.parametrize("kind", ["absent", "other", "broken", "fields"])
def test_what_is_no_encoder_is_refused_in_one_sentence(kind, trained, tmp_path):
    from safetensors.torch import save

    path = tmp_path / "encoder"
    trained.save(path)
    whole = path.read_bytes()
    content = {
        "other": save({"weights": torch.zeros(2)}),
        "broken": whole[:-10],
        "fields": save({"weights": torch.zeros(2)}, metadata={"encoder": '{"spec": {}}'}),
    }
    path.unlink()
    if kind != "absent":
        write_atomically(path, content[kind])
    with pytest.raises(FedkinError) as refused:
        Pretrained.load(path)
    sentence = str(refused.value)
    assert sentence.startswith(f"'{path}' holds no encoder (")
    assert sentence.endswith(f"); make one with `fedkin pretrain DATA --out {path}`.")
    assert "\n" not in sentence
