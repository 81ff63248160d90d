import torch
from torch import nn

from fedkin.core.seeds import derive_generator
from fedkin.nn.resident import Resident


def resident_rng(*path):
    return derive_generator(0, "resident", *path)


def batch(channels, n=16):
    return torch.rand(n, channels, 8, 8, generator=resident_rng("x")), torch.arange(n) % 3


def test_dropout_draws_by_the_generator_that_was_loaded():
    module = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 3)).train()
    resident = Resident(module, channels_last=False, draws=True)
    vector, (x, _) = resident.vector(), batch(1)

    def drawn(*path):
        resident.load(vector, resident_rng(*path))
        return resident.output(x).detach()

    before = torch.get_rng_state()
    assert torch.equal(drawn("a"), drawn("a"))
    assert not torch.equal(drawn("a"), drawn("b"))
    assert torch.equal(torch.get_rng_state(), before)
