"""Adam on a flat vector."""

import torch

from fedkin.nn.descent import AdamMoments


def test_steps_are_those_of_torch_and_go_on_from_what_was_kept():
    rng = torch.Generator().manual_seed(0)
    params, gradients = torch.randn(7, generator=rng), torch.randn(5, 7, generator=rng)
    theirs = params.clone().requires_grad_()
    optimizer = torch.optim.Adam([theirs], lr=0.1)
    state: dict[str, torch.Tensor] = {}
    for gradient in gradients:
        moments = AdamMoments.kept(state, 7)
        moments.step(params, gradient, 0.1)
        moments.keep(state)
        theirs.grad = gradient.clone()
        optimizer.step()
    assert torch.allclose(params, theirs.detach(), atol=1e-6)
    assert float(state["adam_steps"]) == 5


def test_a_copy_is_taken_and_forgetting_leaves_the_rest():
    state = {"clusters": torch.ones(2)}
    moments = AdamMoments.new(3)
    moments.keep(state)
    AdamMoments.kept(state, 3).mean.add_(1)
    assert torch.equal(state["adam_mean"], torch.zeros(3))
    AdamMoments.forget(state)
    AdamMoments.forget(state)
    assert list(state) == ["clusters"]
