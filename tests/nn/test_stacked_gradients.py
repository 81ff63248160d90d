import math
from itertools import count

import pytest
import torch
from torch import Tensor, nn

from fedkin.core.device import Execution, on
from fedkin.nn import client_stack
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


@pytest.mark.parametrize("faster", ["products", "grouped"])
def test_the_faster_form_is_measured_once(monkeypatch: pytest.MonkeyPatch, faster: str) -> None:
    monkeypatch.setattr(client_stack, "_PRODUCTS_ARE_FASTER", {})
    seconds = iter([1.0, 2.0] if faster == "products" else [2.0, 1.0])
    monkeypatch.setattr(StackedGradients, "_seconds", lambda *_: next(seconds))
    expected = gradients("lenet5", Execution(convolutions=faster))
    for _ in range(2):
        found = gradients("lenet5", Execution(convolutions="faster"))
        assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
    with pytest.raises(StopIteration):
        gradients("lenet5", Execution(convolutions="faster"), (COUNT, BATCH + 1))


def test_what_takes_too_much_memory_is_not_the_faster_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_stack, "_PRODUCTS_ARE_FASTER", {})
    asked = count()

    def computed(self: StackedGradients, of: object, *given: Tensor) -> tuple[Tensor, Tensor]:
        if next(asked) == 0:
            raise torch.OutOfMemoryError
        return torch.zeros(1), torch.zeros(1)

    monkeypatch.setattr(StackedGradients, "_computed", computed)
    gradients("lenet5", Execution(convolutions="faster"))
    assert list(client_stack._PRODUCTS_ARE_FASTER.values()) == [False]


@pytest.mark.long
@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() == "DEFAULT", reason="torch compiles no vectors for such a processor"
)
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
def test_compiled_gradients_are_the_same_but_for_rounding() -> None:
    assert close(gradients("perceptron", Execution(compile=True)), alone("perceptron"))


def test_only_steps_of_the_usual_shape_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(torch, "compile", lambda of, dynamic: compiled)
    network, (models, x, y) = inputs("perceptron")
    with on(CPU, execution=Execution(compile=True)):
        made = StackedGradients(network, (COUNT, BATCH))
    assert made(models, x[:, :2], y[:, :2])[1].isfinite().all()
    assert made(models[:2], x[:2], y[:2])[1].isfinite().all()
    with pytest.raises(ZeroDivisionError):
        made(models, x, y)


def test_patches_count_as_memory() -> None:
    network = Classifier.of({"name": "lenet5", "shape": SHAPES["lenet5"], "classes": 3})
    convolutions = [part for part in network.build().modules() if isinstance(part, nn.Conv2d)]
    assert len(convolutions) == 2
    (first, sides), (second, others) = zip(convolutions, ((24, 24), (8, 8)), strict=True)
    patches = first.weight[0].numel() * math.prod(sides) + second.weight[0].numel() * math.prod(others)
    assert client_stack._outputs(network, True) - client_stack._outputs(network, False) == patches
