import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core.seeds import derive_generator
from fedkin.nn.client_stack import StackedModels
from fedkin.nn.descent import LocalTraining
from fedkin.nn.modules import Classifier
from fedkin.nn.stack import Autoencoder, Gradient, StackTraining, fit

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
    adam = torch.optim.Adam([flat], lr=training.learning_rate, eps=1e-7)
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


def stack_of(model, count, seed=0):
    return model.initial([derive_generator(seed, k) for k in range(count)])


def by_hand(model, flat, x):
    """The same network written with autograd."""
    hidden = x
    parts = model.split(flat[None])
    for index, (weight, bias) in enumerate(parts):
        hidden = hidden @ weight[0] + bias[0]
        if index < len(parts) - 1:
            hidden = hidden.relu()
    made = hidden.sigmoid() if model.output == "sigmoid" else hidden
    return (made - x).square().mean(dim=1)


@pytest.mark.parametrize("output", ["sigmoid", "linear"])
def test_errors_and_gradients_are_autograds(output):
    model = Autoencoder((12, 7, 3), output)
    stack = stack_of(model, 3)
    x = torch.rand(3, 5, 12, generator=derive_generator(1))
    errors = model.errors(stack, x)
    gradient = Gradient(model, stack, 5)
    gradient.batch.copy_(x)
    weights = torch.full((3, 5, 1), 1 / 5)
    gradient(weights)
    for k in range(3):
        flat = stack[k].clone().requires_grad_()
        expected = by_hand(model, flat, x[k])
        expected.mean().backward()
        torch.testing.assert_close(errors[k], expected.detach())
        torch.testing.assert_close(gradient.gradient[k], flat.grad, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("module", "shape"), [("lenet5", (1, 28, 28)), ("perceptron", (12,))])
def test_stacked_gradients_are_those_of_each_model_alone(module: str, shape: tuple[int, ...]) -> None:
    network = Classifier.of({"name": module, "shape": shape, "classes": 3})
    rng = torch.Generator().manual_seed(0)
    models = torch.stack([network.initial(rng) for _ in range(3)])
    x, y = torch.rand(3, 4, *shape, generator=rng), torch.arange(12).view(3, 4) % 3
    gradients, losses = StackedModels(network, LocalTraining()).gradients(models, x, y)
    for k in range(3):
        with network.loaded(models[k], training=True) as resident:
            torch.testing.assert_close(losses[k], resident.gradient(x[k], y[k]), rtol=1e-4, atol=1e-6)
            torch.testing.assert_close(gradients[k], resident.grad, rtol=1e-4, atol=1e-6)
