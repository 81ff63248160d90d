import pytest
import torch
from torch import Tensor

from fedkin.core.device import Execution, on
from fedkin.nn.client_stack import StackedGradients
from fedkin.nn.modules import Classifier

CPU, COUNT, BATCH = torch.device("cpu"), 3, 4
SHAPES = {"lenet5": (1, 28, 28), "perceptron": (12,)}


def inputs(module: str) -> tuple[Classifier, tuple[Tensor, Tensor, Tensor]]:
    network = Classifier.of({"name": module, "shape": SHAPES[module], "classes": 3})
    rng = torch.Generator().manual_seed(0)
    models = torch.stack([network.initial(rng) for _ in range(COUNT)])
    x = torch.rand(COUNT, BATCH, *SHAPES[module], generator=rng)
    return network, (models, x, torch.arange(COUNT * BATCH).view(COUNT, BATCH) % 3)


def gradients(module: str, execution: Execution, usual: tuple[int, int] = (COUNT, BATCH)) -> tuple[Tensor, Tensor]:
    network, given = inputs(module)
    with on(CPU, execution=execution):
        found = StackedGradients(network, usual)
    return found(*given)


def alone(module: str) -> tuple[Tensor, Tensor]:
    network, (models, x, y) = inputs(module)
    losses, found = [], []
    for model, images, labels in zip(models, x, y, strict=True):
        with network.loaded(model, training=True) as resident:
            losses.append(resident.gradient(images, labels))
            found.append(resident.grad.clone())
    return torch.stack(found), torch.stack(losses)


def close(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> bool:
    return all(torch.allclose(*pair, rtol=1e-4, atol=1e-6) for pair in zip(found, expected, strict=True))


@pytest.mark.parametrize("module", SHAPES)
@pytest.mark.parametrize("form", ["grouped", "products", "faster"])
def test_gradients_are_those_of_each_model_alone(module: str, form: str) -> None:
    assert close(gradients(module, Execution(convolutions=form)), alone(module))


@pytest.mark.long
@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() == "DEFAULT", reason="torch compiles no vectors for such a processor"
)
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
def test_compiled_gradients_are_the_same_but_for_rounding() -> None:
    assert close(gradients("perceptron", Execution(compile=True)), alone("perceptron"))
