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


def test_initial_models_are_the_modules_own_and_leave_the_global_generator_alone():
    architecture = Doubling(plain)
    before = torch.get_rng_state()
    found = architecture.initial(rng("w"))
    assert torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw_seed(rng("w")))
        assert torch.equal(found, vector_of(plain()))
    assert not torch.equal(found, architecture.initial(rng("other")))


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


def test_other_precisions_are_refused():
    def statistics():
        module = plain()
        module[1].running_var = module[1].running_var.double()
        return module

    for make in (lambda: plain().double(), statistics):
        with pytest.raises(FedkinError, match=r"Model 'doubling' has parameters of torch.float64; fedkin trains float"):
            Doubling(make)
