from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.nn.functional import l1_loss

from fedkin.core import FedkinError
from fedkin.core.seeds import derive_generator, draw_seed
from fedkin.nn.descent import LocalTraining, train_locally
from fedkin.nn.resident import Architecture, vector_of


class Doubling(Architecture):
    """Learns twice its samples, by the mean absolute difference."""

    criterion = staticmethod(l1_loss)

    def __init__(self, make, shape=(4,)):
        self.make = make
        super().__init__("doubling", shape)

    def build(self):
        return self.make()

    def targets(self, x):
        return 2 * x

    def spec(self):
        return {"name": self.name}


def plain():
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, 4))


def images():
    return nn.Sequential(nn.Conv2d(2, 5, 3, padding=1), nn.ReLU(), nn.Conv2d(5, 2, 1))


class Viewing(nn.Module):
    """Calls `view` on activations, which fails where images lie channels last."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(2, 2, 1)

    def forward(self, x):
        return self.convolution(x).view(len(x), -1).view(x.shape)


def rng(*path):
    return derive_generator(0, "architecture", *path)


def drawn(n, shape=(4,)):
    return torch.randn(n, *shape, generator=rng("x"))


def test_a_vector_is_parameters_then_statistics_then_counters():
    architecture = Doubling(plain)
    assert architecture.parameters == 12 + 3 + 3 + 3 + 12 + 4
    assert architecture.floats == architecture.parameters + 6
    assert architecture.size == architecture.floats + 1
    module = architecture.module(architecture.initial(rng("w"))).train()
    module(drawn(9))
    vector = vector_of(module)
    parameters = torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
    assert torch.equal(vector[: architecture.parameters], parameters)
    assert torch.equal(vector[architecture.parameters : architecture.parameters + 3], module[1].running_mean)
    assert vector[architecture.floats :].tolist() == [1.0]
    assert torch.equal(vector_of(architecture.module(vector)), vector)


def test_a_module_of_its_own_is_nobody_elses_and_evaluates():
    architecture = Doubling(plain)
    vector = architecture.initial(rng("w"))
    first, second = architecture.module(vector), architecture.module(vector)
    assert not first.training
    with torch.no_grad():
        first[0].weight.zero_()
    assert torch.equal(vector_of(second), vector)
    assert torch.equal(architecture.initial(rng("w")), vector)


def test_initial_models_are_the_modules_own_and_leave_the_global_generator_alone():
    architecture = Doubling(plain)
    before = torch.get_rng_state()
    found = architecture.initial(rng("w"))
    assert torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw_seed(rng("w")))
        assert torch.equal(found, vector_of(plain()))
    assert not torch.equal(found, architecture.initial(rng("other")))


def test_leading_tensors_are_measured():
    architecture = Doubling(plain)
    assert [architecture.leading(tensors) for tensors in (0, 1, 2, 99)] == [0, 12, 15, architecture.parameters]


def test_training_follows_the_architectures_own_criterion():
    architecture = Doubling(plain)
    start, x = architecture.initial(rng("w")), drawn(30)
    vector, loss = train_locally(
        architecture, start, x, 2 * x, rng("t"), LocalTraining(batch_size=30, learning_rate=0.1)
    )
    module = architecture.module(start).train()
    order = torch.randperm(30, generator=rng("t"))
    expected = l1_loss(module(x[order]), 2 * x[order])
    expected.backward()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter -= 0.1 * parameter.grad
    assert loss == pytest.approx(float(expected.detach()), rel=1e-5)
    torch.testing.assert_close(vector, vector_of(module), rtol=1e-4, atol=1e-6)


def test_a_resident_is_lent_to_one_at_a_time_and_comes_back():
    architecture = Doubling(plain)
    with architecture.resident() as first, architecture.resident() as second:
        assert first is not second
    lent = [first, second]
    with architecture.resident() as third, architecture.resident() as fourth:
        assert {id(third), id(fourth)} == {id(resident) for resident in lent}
    with pytest.raises(ZeroDivisionError), architecture.resident() as failed:
        _ = 1 / 0
    with architecture.resident() as again:
        assert again is failed


def test_threads_do_not_disturb_each_other():
    architecture = Doubling(images, (2, 8, 8))
    starts = [architecture.initial(rng("w", i)) for i in range(12)]
    x = drawn(20, (2, 8, 8))

    def trained(i):
        vector, loss = train_locally(architecture, starts[i], x, 2 * x, rng("t", i), LocalTraining(batch_size=5))
        return vector, loss, architecture.initial(rng("new", i))

    alone = [trained(i) for i in range(12)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(trained, range(12)))
    for (vector, loss, new), (other, other_loss, other_new) in zip(alone, together, strict=True):
        assert torch.equal(vector, other)
        assert loss == other_loss
        assert torch.equal(new, other_new)


@pytest.mark.parametrize(
    ("make", "shape", "expected"),
    [
        (images, (2, 8, 8), True),
        (Viewing, (2, 8, 8), False),
        (plain, (4,), False),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(8, 8), nn.Unflatten(1, (2, 2, 2))), (2, 2, 2), False),
    ],
    ids=["convolutions", "view", "vectors", "no-convolution"],
)
def test_images_lie_channels_last_where_the_module_can_take_them(make, shape, expected):
    with Doubling(make, shape).resident() as resident:
        assert resident.channels_last is expected
        assert resident.output(drawn(3, shape)).shape == (3, *shape)


def test_other_precisions_are_refused():
    def statistics():
        module = plain()
        module[1].running_var = module[1].running_var.double()
        return module

    for make in (lambda: plain().double(), statistics):
        with pytest.raises(FedkinError, match=r"Model 'doubling' has parameters of torch.float64; fedkin trains float"):
            Doubling(make)
