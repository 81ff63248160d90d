import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import mse_loss

from fedkin.core import FedkinError
from fedkin.core.files import write_atomically
from fedkin.core.seeds import derive_generator
from fedkin.nn import encoder as encoders
from fedkin.nn.descent import LocalTraining, train_locally
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


@pytest.mark.parametrize(
    ("name", "shape", "parameters", "width"),
    [
        ("dense-autoencoder", (1, 28, 28), 81_304, 20),
        ("conv-autoencoder", (3, 32, 32), 47_601, 768),
        ("conv-autoencoder", (3, 64, 64), 47_601, 3_072),
        ("conv-autoencoder", (3, 8, 8), 47_601, 48),
        ("dense-autoencoder", (5,), 2 * 5 + 2 + 5 * 5 + 5 + 5 * 2 + 5 + 5 * 5 + 5, 2),
    ],
)
def test_sizes_and_widths(name, shape, parameters, width):
    encoder = Encoder(name, shape)
    assert (encoder.parameters, encoder.width) == (parameters, width)
    batch_norms = 2 * (12 + 24 + 48 + 24 + 12 + 3) + 6 if name == "conv-autoencoder" else 0
    assert encoder.size == parameters + batch_norms
    vector = encoder.initial(rng("w"))
    assert vector.shape == (encoder.size,)
    assert vector.dtype == torch.float32
    codes = encoder.codes(vector, torch.zeros(2, *shape))
    assert codes.shape == (2, width)
    assert codes.dtype == torch.float32
    assert encoder.decoded(vector, codes).shape == (2, *shape)


def test_equal_descriptions_are_one_object():
    encoder = Encoder.of(CONV)
    assert encoder is Encoder.of(CONV | {"shape": (3, 16, 16)})
    assert encoder is Encoder.of(encoder.spec())
    assert encoder.spec() == CONV
    assert encoder is not Encoder.of(CONV | {"output": "linear"})


def test_what_cannot_be_built_is_one_sentence():
    with pytest.raises(
        FedkinError, match=r"^Unknown autoencoder 'dense-autoencode'; did you mean 'dense-autoencoder'\?$"
    ):
        Encoder("dense-autoencode", (5,))
    with pytest.raises(FedkinError, match=r"shape \(3, 30, 32\); it needs images whose sides are multiples of 8\.$"):
        Encoder("conv-autoencoder", (3, 30, 32))


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
@pytest.mark.parametrize("n", [0, 1, 7])
def test_codes_and_reconstructions_are_those_of_the_plain_module(spec, n):
    encoder, vector = used(spec)
    module, x = encoder.module(vector), samples(spec, n)
    codes = encoder.codes(vector, x)
    assert codes.shape == (n, encoder.width)
    assert not codes.requires_grad
    with encoder.resident() as resident:
        resident.module.train()  # whoever has it next must not normalise by what comes along
    made = encoder.decoded(vector, codes)
    assert made.shape == x.shape
    assert made.is_contiguous()
    if n:
        with torch.no_grad():
            torch.testing.assert_close(codes, module.encoder(x), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(made, module(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_a_model_survives_its_module(spec):
    encoder, vector = used(spec)
    assert torch.equal(vector_of(encoder.module(vector)), vector)
    with encoder.resident() as resident:
        resident.load(vector)
        assert torch.equal(resident.vector(), vector)


@settings(max_examples=12)
@given(st.integers(0, 12), st.integers(1, 13), st.sampled_from(SPECS))
def test_how_samples_are_cut_does_not_matter(n, at_once, spec):
    encoder, vector = used(spec)
    x = samples(spec, n)
    whole = encoder.codes(vector, x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoders, "_BATCH", at_once)
        torch.testing.assert_close(encoder.codes(vector, x), whole, rtol=1e-5, atol=1e-6)
        found = encoder.decoded(vector, whole)
    torch.testing.assert_close(encoder.decoded(vector, whole), found, rtol=1e-5, atol=1e-6)


def test_more_samples_than_fit_at_once():
    encoder, vector = used(SMALL)
    x = samples(SMALL, 1203)
    with torch.no_grad():
        torch.testing.assert_close(encoder.codes(vector, x), encoder.module(vector).encoder(x))


@pytest.mark.parametrize("spec", [CONV, GREY], ids=["colour", "grey"])
def test_batch_statistics_are_those_of_all_samples_at_once(spec):
    encoder, vector = used(spec)
    x, before = samples(spec, 13), vector.clone()
    remembered = encoder.codes(vector, x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoders, "_BATCH", 4)  # must not cut what is normalised together
        found = encoder.codes(vector, x, batch_statistics=True)
    with torch.no_grad():
        expected = encoder.module(vector).train().encoder(x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found, remembered, atol=1e-2)
    assert torch.equal(vector, before)
    assert torch.equal(encoder.codes(vector, x), remembered)


def test_without_batch_norm_there_are_no_batch_statistics():
    encoder, vector = used(DENSE)
    x = samples(DENSE, 6)
    assert torch.equal(encoder.codes(vector, x, batch_statistics=True), encoder.codes(vector, x))


@pytest.mark.parametrize("shape", [[3, 16, 16], [3, 8, 8]])
def test_a_single_sample_is_normalised_by_itself(shape):
    encoder, vector = used(CONV | {"shape": shape})
    vector[: encoder.parameters] += 0.1 * torch.randn(encoder.parameters, generator=rng("more"))
    x = torch.rand(1, *shape, generator=rng("x"))
    found = encoder.codes(vector, x, batch_statistics=True)
    assert found.shape == (1, encoder.width)
    module = encoder.module(vector).train()
    if shape == [3, 8, 8]:  # each channel has shrunk to one number, which is its own mean
        torch.testing.assert_close(found[0], module.encoder[7].bias.detach().relu(), rtol=1e-3, atol=1e-4)
    else:
        torch.testing.assert_close(found, module.encoder(x).detach(), rtol=1e-4, atol=1e-5)
    assert encoder.codes(vector, x[:0], batch_statistics=True).shape == (0, encoder.width)


def test_images_lie_channels_last_only_where_there_are_convolutions():
    for spec, expected in zip(SPECS, [False, False, True, True], strict=True):
        with Encoder.of(spec).resident() as resident:
            assert resident.channels_last is expected


def plainly(encoder, start, x, rng, descent):
    """One epoch of torch's own optimizer on the mean squared error."""
    module = encoder.module(start).train()
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[descent.optimizer]
    optimizer = kind(module.parameters(), lr=descent.learning_rate)
    losses = []
    for rows in torch.randperm(len(x), generator=rng).split(descent.batch_size):
        if len(rows) > 1 or not list(module.buffers()):
            loss = mse_loss(module(x[rows]), x[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append((float(loss.detach()), len(rows)))
    return vector_of(module), sum(loss * count for loss, count in losses) / sum(count for _, count in losses)


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_training_is_that_of_plain_torch(spec):
    encoder = Encoder.of(spec)
    start, x = encoder.initial(rng("w")), samples(spec, 41)
    # A convolution's bias before a batch norm has no slope but rounding, of which Adam makes whole steps.
    optimizer = "sgd" if list(encoder.module(start).buffers()) else "adam"
    before, descent = start.clone(), LocalTraining(batch_size=8, optimizer=optimizer, learning_rate=0.01)
    vector, error = train_locally(encoder, start, x, x, rng("train"), descent)
    expected, expected_error = plainly(encoder, start, x, rng("train"), descent)
    assert torch.equal(start, before)
    assert error == pytest.approx(expected_error, rel=1e-3)
    x = samples(spec, 20, "fresh")
    ours, theirs = (encoder.decoded(model, encoder.codes(model, x)) for model in (vector, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(vector, expected, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(vector, start, atol=1e-3)
    assert math.isfinite(float(vector.sum()))


def test_threads_do_not_disturb_each_other():
    encoder = Encoder("conv-autoencoder", (3, 16, 16))
    models = [encoder.initial(rng("w", i)) for i in range(8)]
    x = samples(CONV, 12)

    def decoded_errors(i):
        descent = LocalTraining(batch_size=4, optimizer="adam", learning_rate=0.01)
        trained, _ = train_locally(encoder, models[i], x, x, rng("t", i), descent)
        codes = encoder.codes(models[i], x)
        return trained, codes, encoder.codes(models[i], x, True), encoder.decoded(models[i], codes)

    alone = [decoded_errors(i) for i in range(8)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(decoded_errors, range(8)))
    assert all(
        torch.equal(a, b) for one, other in zip(alone, together, strict=True) for a, b in zip(one, other, strict=True)
    )


@pytest.fixture
def trained():
    encoder, vector = used(CONV)
    return Pretrained(encoder.spec(), vector, {"epochs": 3, "data": "somewhere", "error": 0.25})


def test_a_file_gives_back_what_was_saved(trained, tmp_path):
    path = tmp_path / "folder" / "encoder.safetensors"
    trained.save(path)
    again = Pretrained.load(path)
    assert (again.spec, again.about) == (trained.spec, trained.about)
    assert torch.equal(again.vector, trained.vector)
    again.save(tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == path.read_bytes()
    x = samples(CONV, 3)
    assert torch.equal(Encoder.of(again.spec).codes(again.vector, x), Encoder.of(CONV).codes(trained.vector, x))
    assert [file.name for file in path.parent.iterdir()] == ["encoder.safetensors"]


@pytest.mark.parametrize("kind", ["absent", "folder", "empty", "text", "other", "metadata", "broken", "fields"])
def test_what_is_no_encoder_is_refused_in_one_sentence(kind, trained, tmp_path):
    from safetensors.torch import save

    path = tmp_path / "encoder"
    trained.save(path)
    whole = path.read_bytes()
    content = {
        "empty": b"",
        "text": b"not a model",
        "other": save({"weights": torch.zeros(2)}),
        "metadata": save({"weights": torch.zeros(2)}, metadata={"made": "by others"}),
        "broken": whole[:-10],
        "fields": save({"weights": torch.zeros(2)}, metadata={"encoder": '{"spec": {}}'}),
    }
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind != "absent":
        write_atomically(path, content[kind])
    with pytest.raises(FedkinError) as refused:
        Pretrained.load(path)
    sentence = str(refused.value)
    assert sentence.startswith(f"'{path}' holds no encoder (")
    assert sentence.endswith(f"); make one with `fedkin pretrain DATA --out {path}`.")
    assert "\n" not in sentence


def test_a_convolutional_encoder_takes_images_of_other_sizes(trained):
    for shape, width in (((3, 16, 16), 192), ((3, 64, 64), 3072), ((3, 8, 24), 144)):
        encoder = trained.fitted_to(shape, "file")
        assert (encoder.shape, encoder.width, encoder.output) == (shape, width, "sigmoid")
        assert encoder.codes(trained.vector, torch.zeros(1, *shape)).shape == (1, width)


def test_an_encoder_that_was_never_trained_is_refused(trained):
    with pytest.raises(FedkinError) as refused:
        Pretrained(CONV, trained.vector, {"epochs": 0}).fitted_to((3, 16, 16), "file")
    assert str(refused.value) == (
        "The encoder of 'file' has not been trained for an epoch yet; continue `fedkin pretrain`."
    )
    assert Pretrained(CONV, trained.vector, {}).fitted_to((3, 16, 16), "one made by hand") is Encoder.of(CONV)


@pytest.mark.parametrize(
    ("spec", "shape", "sentence"),
    [
        (CONV, (3, 30, 32), "The encoder of 'file' does not fit: The autoencoder 'conv-autoencoder' was asked for "
         "samples of shape (3, 30, 32); it needs images whose sides are multiples of 8."),
        (CONV, (768,), "The encoder of 'file' does not fit: The autoencoder 'conv-autoencoder' was asked for samples "
         "of shape (768,); it needs images whose sides are multiples of 8."),
        (CONV, (1, 16, 16), "The encoder of 'file' was trained on samples of shape (3, 16, 16); the clients' have "
         "(1, 16, 16)."),
        (DENSE, (1, 8, 8), "The encoder of 'file' was trained on samples of shape (1, 28, 28); the clients' have "
         "(1, 8, 8)."),
        (CONV | {"name": "renamed"}, (3, 16, 16), "The encoder of 'file' does not fit: Unknown autoencoder 'renamed'; "
         "allowed: conv-autoencoder, dense-autoencoder."),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_sentence(spec, shape, sentence):
    size = Encoder.of(CONV if spec["name"] == "renamed" else spec).size
    with pytest.raises(FedkinError) as refused:
        Pretrained(spec, torch.zeros(size), {}).fitted_to(shape, "file")
    assert str(refused.value) == sentence
