import math

import pytest
import torch

from fedkin.nn.flow import RealNVP, to_logits


def flow_of(shape, width=16, depth=2, couplings=6, seed=0, factor=3):
    """A flow far from the identity: its weights are several times what torch draws."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        flow = RealNVP(shape, width, depth, couplings).double()
    for parameter in flow.parameters():
        parameter.data *= factor
    return flow


def samples(n, *shape):
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.mark.parametrize("shape", [(5,), (2,), (1,), (1, 4, 3), (2, 2, 2)])
def test_the_log_determinant_is_that_of_the_jacobian(shape):
    flow, x = flow_of(shape), samples(4, *shape)
    z, found = flow.latent(x)
    assert not torch.allclose(z, x.flatten(1), atol=0.1)
    for sample, log_determinant in zip(x, found, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda one: flow.latent(one[None])[0][0], sample)
        _, expected = torch.linalg.slogdet(jacobian.reshape(sample.numel(), -1))
        assert torch.allclose(log_determinant, expected, atol=1e-9)
        assert abs(float(expected)) > 1e-3


def test_logits_of_every_level():
    x = (torch.arange(256, dtype=torch.float64) / 255)[None]
    logits = to_logits(x, 1e-5)
    assert logits.isfinite().all()
    assert (logits.diff() > 0).all()
    assert logits[0, 0] == pytest.approx(math.log(0.5 / 255.5), abs=0.01)
