import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core.seeds import derive_generator
from fedkin.nn.stack import Autoencoder, StackTraining, fit

MODEL = Autoencoder((10, 6, 3))


def problem(sizes, seed=0):
    data = [torch.rand(n, 10, generator=derive_generator(seed, "x", k)) for k, n in enumerate(sizes)]
    stack = MODEL.initial([derive_generator(seed, "w", k) for k in range(len(sizes))])
    return stack, data


def rngs(count, seed=0):
    return [derive_generator(seed, "shuffle", k) for k in range(count)]


def alone_by_hand(flat, x, rng, training):
    """One model, torch's own Adam and autograd."""
    flat = flat.clone().requires_grad_()
    adam = torch.optim.Adam([flat], lr=training.learning_rate, eps=training.epsilon)
    for _ in range(training.total_steps(len(x)) // training.steps(len(x))):
        for rows in torch.randperm(len(x), generator=rng).split(training.batch_size):
            hidden = x[rows]
            parts = MODEL.split(flat[None])
            for index, (weight, bias) in enumerate(parts):
                hidden = hidden @ weight[0] + bias[0]
                hidden = hidden.relu() if index < len(parts) - 1 else hidden.sigmoid()
            adam.zero_grad()
            (hidden - x[rows]).square().mean().backward()
            adam.step()
    return flat.detach()


def test_a_stack_trains_as_torchs_adam_would_each_alone():
    training = StackTraining(epochs=4, batch_size=8)
    stack, data = problem([20, 8, 33, 1])
    trained = fit(MODEL, stack, data, rngs(4), training)
    for k in range(4):
        torch.testing.assert_close(
            trained[k], alone_by_hand(stack[k], data[k], rngs(4)[k], training), rtol=1e-4, atol=1e-5
        )


@settings(max_examples=25)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 7), st.integers(0, 30))
def test_company_changes_nothing(sizes, stack_size, min_steps):
    training = StackTraining(epochs=2, min_steps=min_steps, batch_size=8)
    stack, data = problem(sizes)
    together = fit(MODEL, stack, data, rngs(len(sizes)), training, stack_size)
    for k in range(len(sizes)):
        alone = fit(MODEL, stack[k : k + 1], data[k : k + 1], rngs(len(sizes))[k : k + 1], training)
        torch.testing.assert_close(together[k], alone[0], rtol=0, atol=1e-5)


def test_a_model_that_is_done_does_not_drift():
    training = StackTraining(epochs=3, batch_size=4)
    stack, data = problem([4, 400])
    trained = fit(MODEL, stack, data, rngs(2), training)
    alone = fit(MODEL, stack[:1], data[:1], rngs(2)[:1], training)
    # Products of two and of one may be rounded differently; a step more would be 0.003.
    torch.testing.assert_close(trained[0], alone[0], rtol=0, atol=1e-6)


def test_training_leaves_its_input_alone_and_lowers_the_error():
    stack, data = problem([50, 50])
    before = stack.clone()
    trained = fit(MODEL, stack, data, rngs(2), StackTraining(epochs=60))
    assert torch.equal(stack, before)
    errors = torch.stack([MODEL.errors(trained[k : k + 1], data[k]).mean() for k in range(2)])
    assert (errors < torch.stack([MODEL.errors(before[k : k + 1], data[k]).mean() for k in range(2)])).all()
