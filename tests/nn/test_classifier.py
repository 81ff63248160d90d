from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedkin.core import FedkinError
from fedkin.core.seeds import derive_generator, draw_seed
from fedkin.nn import build
from fedkin.nn.modules import Classifier
from fedkin.nn.plain_sequence import SequenceResident
from fedkin.nn.resident import vector_of

IMAGE = (1, 8, 8)


def normed(shape, classes):
    """Batch norms of both kinds, with their statistics and counters."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 6), nn.BatchNorm1d(6),
        nn.Linear(6, classes),
    )  # fmt: skip


class Viewing(nn.Module):
    """Calls `view` on activations, which fails where images lie channels last."""

    def __init__(self, channels, classes):
        super().__init__()
        self.convolution, self.head = nn.Conv2d(channels, 4, 3), nn.Linear(144, classes)

    def forward(self, x):
        return self.head(self.convolution(x).view(len(x), 144))


def viewing(shape, classes):
    return Viewing(shape[0], classes)


def doubled(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes)).double()


def frozen(shape, classes):
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, classes))
    module[1].requires_grad_(False)
    return module


NORMED, VIEWING = f"{__name__}:normed", f"{__name__}:viewing"
NAMES = ["perceptron", "lenet5", "gradient-loss-cnn", NORMED, VIEWING]


def rng(*path):
    return derive_generator(0, "classifier", *path)


def used(classifier):
    """A module whose statistics and counters are not those it began with."""
    module = classifier.module(classifier.initial(rng("w"))).train()
    for _ in range(3):
        module(torch.rand(5, *classifier.shape, generator=rng("x")))
    return module.eval()


@pytest.mark.parametrize("name", NAMES)
def test_a_vector_is_the_whole_model(name):
    classifier = Classifier(name, IMAGE, 3)
    module = used(classifier)
    vector = vector_of(module)
    assert vector.shape == (classifier.size,)
    assert vector.dtype == torch.float32
    state = classifier.module(vector).state_dict()
    assert state.keys() == module.state_dict().keys()
    assert all(torch.equal(state[key], value) for key, value in module.state_dict().items())
    with classifier.resident() as resident:
        resident.load(vector)
        assert torch.equal(resident.vector(), vector)


def test_parameters_come_first_then_statistics_then_counters():
    classifier = Classifier(NORMED, IMAGE, 3)
    module = used(classifier)
    vector = vector_of(module)
    parameters = torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
    assert torch.equal(vector[: classifier.parameters], parameters)
    assert classifier.floats == classifier.parameters + 2 * 4 + 2 * 6
    assert vector[classifier.floats :].tolist() == [3.0, 3.0]
    assert torch.equal(vector[classifier.parameters : classifier.parameters + 4], module[1].running_mean)


def test_leading_tensors_are_measured():
    classifier = Classifier("lenet5", IMAGE, 3)
    assert [classifier.leading(tensors) for tensors in (0, 1, 2, 3)] == [0, 400, 416, 416 + 32 * 16 * 25]
    assert classifier.leading(99) == classifier.parameters


@pytest.mark.parametrize("name", NAMES)
def test_a_new_model_is_initialised_as_its_module_initialises_itself(name):
    classifier = Classifier(name, IMAGE, 3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw_seed(rng("w")))
        expected = vector_of(build(name, IMAGE, 3))
    assert torch.equal(classifier.initial(rng("w")), expected)
    assert not torch.equal(classifier.initial(rng("other")), expected)


def test_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    Classifier("lenet5", IMAGE, 3).initial(rng("w"))
    Classifier(NORMED, IMAGE, 3).module(torch.zeros(Classifier(NORMED, IMAGE, 3).size))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("samples", [0, 1, 7, 1203])
def test_logits_are_those_of_the_plain_module(name, samples):
    classifier = Classifier(name, IMAGE, 3)
    module = used(classifier)
    x = torch.rand(samples, *IMAGE, generator=rng("test"))
    logits = classifier.logits(vector_of(module), x)
    assert logits.shape == (samples, 3)
    assert not logits.requires_grad
    torch.testing.assert_close(logits, module(x).detach(), rtol=1e-5, atol=1e-6)


def test_loss_is_the_mean_cross_entropy_in_evaluation_mode():
    classifier = Classifier(NORMED, IMAGE, 3)
    module = used(classifier)
    x, y = torch.rand(9, *IMAGE, generator=rng("x")), torch.arange(9) % 3
    with classifier.resident() as resident:
        resident.module.train()  # whoever had it last may have trained
    assert classifier.loss(vector_of(module), x, y) == pytest.approx(
        float(cross_entropy(module(x), y).detach()), rel=1e-5
    )


def test_a_module_that_uses_view_gets_images_as_they_are():
    with Classifier(VIEWING, (3, 8, 8), 3).resident() as resident:
        assert not resident.channels_last
        resident.gradient(torch.rand(4, 3, 8, 8), torch.arange(4) % 3)
    with Classifier(NORMED, (3, 8, 8), 3).resident() as resident:
        assert resident.channels_last


def test_one_resident_is_never_lent_twice_and_used_again():
    classifier = Classifier("perceptron", (4,), 3)
    with classifier.resident() as first, classifier.resident() as second:
        assert first is not second
    with classifier.resident() as third:
        assert third in (first, second)


def test_threads_do_not_disturb_each_other():
    classifier = Classifier("lenet5", IMAGE, 3)
    models = [classifier.initial(rng(k)) for k in range(8)]
    x = torch.rand(20, *IMAGE, generator=rng("x"))
    alone = [classifier.logits(model, x) for model in models]
    with ThreadPoolExecutor(4, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        together = list(pool.map(lambda model: classifier.logits(model, x), models * 5))
    for expected, found in zip(alone * 5, together, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_only_float32_is_trained():
    from fedkin.nn import register

    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))
            self.head = nn.Linear(4, 3)

        def forward(self, x):
            return self.head(x) * self.scale.float()

    def mixed(shape, classes):
        return Mixed()

    register("mixed-of-a-test", mixed)
    with pytest.raises(FedkinError, match=r"^Model 'mixed-of-a-test' has parameters of torch\.float64; fedkin trains"):
        Classifier("mixed-of-a-test", (4,), 3)


def test_a_classifier_is_made_again_from_plain_values():
    classifier = Classifier.of({"name": "perceptron", "shape": [1, 8, 8], "classes": 3})
    assert Classifier.of(classifier.spec()) is classifier
    assert (classifier.shape, classifier.classes) == ((1, 8, 8), 3)


def test_a_perceptron_with_a_frozen_layer_is_not_trained_by_hand():
    with Classifier("perceptron", IMAGE, 3).resident() as resident:
        assert isinstance(resident, SequenceResident)
    classifier = Classifier(f"{__name__}:frozen", IMAGE, 3)
    with classifier.resident() as resident:
        assert not isinstance(resident, SequenceResident)
        resident.gradient(torch.rand(4, *IMAGE), torch.arange(4) % 3)
        assert not resident.grad[: classifier.leading(2)].any()
        assert resident.grad[classifier.leading(2) :].any()


@pytest.mark.parametrize("name", NAMES)
def test_latents_are_what_the_last_linear_layer_is_given(name):
    network = Classifier.of({"name": name, "shape": IMAGE, "classes": 3})
    vector = network.initial(torch.Generator().manual_seed(0))
    x = torch.rand(5, *IMAGE, generator=torch.Generator().manual_seed(1))
    latents = network.latents(vector, x)
    last = [layer for layer in network.module(vector).modules() if isinstance(layer, nn.Linear)][-1]
    assert latents.shape == (5, last.in_features)
    assert torch.allclose(last(latents), network.logits(vector, x), atol=1e-5)
    assert torch.equal(network.latents(vector, x), latents)  # hooks are gone, or would be called twice
    with network.resident() as resident:
        assert not any(layer._forward_pre_hooks for layer in resident.module.modules())


def filtering(shape, classes):
    """Without a linear layer."""
    return nn.Sequential(nn.Conv2d(shape[0], classes, shape[1:]), nn.Flatten())


def test_latents_without_a_linear_layer_are_logits():
    network = Classifier.of({"name": f"{__name__}:filtering", "shape": IMAGE, "classes": 3})
    vector = network.initial(torch.Generator().manual_seed(0))
    x = torch.rand(5, *IMAGE, generator=torch.Generator().manual_seed(1))
    assert torch.equal(network.latents(vector, x), network.logits(vector, x))


@pytest.mark.parametrize("samples", [1, 64, 65, 700])
def test_the_fitting_model_is_that_of_the_lowest_loss(samples):
    rng = derive_generator(0, "fitting")
    classifier = Classifier.of({"name": "perceptron", "shape": (4,), "classes": 3})
    x, y = torch.randn(samples, 4, generator=rng), torch.randint(0, 3, (samples,), generator=rng)
    for _ in range(5):
        models = torch.stack([classifier.initial(rng) for _ in range(4)])
        losses = [classifier.loss(model, x, y) for model in models]
        assert classifier.fitting(models, x, y) == losses.index(min(losses))
        assert classifier.fitting(models[[1, 1, 0, 0]], x, y) == (0 if losses[1] <= losses[0] else 2)


def test_a_model_that_has_diverged_never_fits():
    classifier = Classifier.of({"name": "perceptron", "shape": (4,), "classes": 3})
    good = classifier.initial(derive_generator(0, "fitting"))
    bad = torch.full_like(good, torch.nan)
    x, y = torch.ones(200, 4), torch.zeros(200, dtype=torch.int64)
    assert classifier.fitting(torch.stack([bad, good, bad]), x, y) == 1
    assert classifier.fitting(torch.stack([bad, bad]), x, y) == 0
    x[150] = torch.nan  # found out late
    assert classifier.fitting(torch.stack([good, good]), x, y) == 0


def test_a_model_is_given_up_as_soon_as_another_is_better(monkeypatch: pytest.MonkeyPatch):
    classifier = Classifier.of({"name": "perceptron", "shape": (4,), "classes": 3})
    good = torch.zeros(classifier.size)
    good[-3] = 9.0  # the bias of the right class
    bad = good.flip(0).roll(-2)
    bad[-1], bad[-3] = 9.0, 0.0
    seen: list[int] = []
    plain = SequenceResident.output
    monkeypatch.setattr(SequenceResident, "output", lambda self, x: (seen.append(len(x)), plain(self, x))[1])
    assert classifier.fitting(torch.stack([bad, good, bad]), torch.ones(1000, 4), torch.zeros(1000).long()) == 1
    assert sum(seen) == 3 * 64 + 936
