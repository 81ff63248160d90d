import torch

from fedkin.nn.descent import AdamMoments


def test_steps_are_those_of_torch_and_go_on_from_what_was_kept():
    rng = torch.Generator().manual_seed(0)
    params, gradients = torch.randn(7, generator=rng), torch.randn(5, 7, generator=rng)
    theirs = params.clone().requires_grad_()
    optimizer = torch.optim.Adam([theirs], lr=0.1)
    state: dict[str, torch.Tensor] = {}
    for gradient in gradients:
        moments = AdamMoments.of_client(state, 7)
        moments.step(params, gradient, 0.1)
        moments.keep(state)
        theirs.grad = gradient.clone()
        optimizer.step()
    assert torch.allclose(params, theirs.detach(), atol=1e-6)
    assert float(state["adam_steps"]) == 5
