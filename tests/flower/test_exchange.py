"""Messages and their replies: whoever fails is named with a reason, and nobody waits for three seconds."""

import gc
import io
import time

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import app_nodes
from fedkin.core import FedkinError
from fedkin.core.payload import failure_kind
from fedkin.flower.array_layout import ArrayLayout, registered_model
from fedkin.flower.grid_federation import exchange
from fedkin.nn.modules import Classifier
from fedkin.nn.resident import vector_of


@pytest.fixture
def grid() -> app_nodes.Fleet:
    app = ClientApp()

    @app.query()
    def echo(message, context):
        if message.content["config"]["say"] == "fail":
            raise ValueError("what a pity\nwith a second line")
        return Message(message.content, reply_to=message)

    return app_nodes.Fleet(app, 5)


def messages(grid: app_nodes.Fleet, words: list[str]) -> dict[int, Message]:
    contents = [RecordDict({"config": ConfigRecord({"say": word})}) for word in words]
    return {at: Message(content, grid.node(at), "query") for at, content in enumerate(contents)}


def test_who_fails_is_reported_in_one_line(grid):
    grid.away = {2}
    grid.troubles = lambda message, partition: {1: "lost", 3: Error(5, None)}.get(partition)
    began = time.monotonic()
    found = exchange(grid, messages(grid, ["fail", "b", "c", "d", "e"]), 0.3)
    assert found[4]["config"]["say"] == "e"
    assert found[0] == "error 2: <class 'ValueError'>:<'what a pity with a second line'>"
    assert failure_kind(found[0]) == "failed"
    assert found[1] == "no reply in 0.3 seconds"
    assert found[2] == "the message could not be sent"
    assert grid.exchanges == 1
    assert found[3] == "error 5: no reason given"
    assert failure_kind(found[3]) == "absent"
    assert 0.3 <= time.monotonic() - began < 3


TYPES = ["float32", "float64", "float16", "int64", "int32", "uint8", "bool"]


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 2), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 5))


def record(**arrays: object) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})


def test_a_vector_is_in_the_order_of_every_architecture():
    module = network().train()
    module(torch.randn(8, 1, 3, 3))
    layout = ArrayLayout.of(ArrayRecord(module.state_dict()))
    assert torch.equal(layout.vector(ArrayRecord(module.state_dict())), vector_of(module))


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from(TYPES), st.lists(st.integers(0, 3), max_size=3)), max_size=6),
    st.integers(0, 99),
)
def test_names_shapes_types_and_values_come_back(parts, seed):
    rng = np.random.default_rng(seed)
    drawn = [rng.integers(0, 2 if kind == "bool" else 200, shape).astype(kind) for kind, shape in parts]
    given_ = record(first=np.float32([0.5]), **{f"{at}": array for at, array in enumerate(drawn)})
    layout = ArrayLayout.of(given_)
    back = layout.record(layout.vector(given_))
    assert list(back) == list(given_)
    for name, array in given_.items():
        assert back[name].numpy().dtype == array.numpy().dtype
        assert np.array_equal(back[name].numpy(), array.numpy())
        assert back[name].shape == array.shape


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"more": 1.0}, "array 'more' is unknown"),
        ({"bias": None}, "array 'bias' is absent"),
        ({"bias": np.zeros(3, np.float32)}, "array 'bias' is float32 of shape (3,) where (2,) was expected"),
        ({"bias": np.zeros(2, np.complex64)}, "array 'bias' is complex64 of shape (2,)"),
        ({"bias": np.array(["a", "b"])}, "array 'bias' is <U1 of shape (2,)"),
    ],
)
def test_other_arrays_are_called_by_name(change, words):
    base = {"weight": np.zeros((2, 2), np.float32), "bias": np.zeros(2, np.float32)}
    layout = ArrayLayout.of(record(**base))
    arrays = {name: value for name, value in {**base, **change}.items() if value is not None}
    assert words in layout.vector(record(**arrays))


def test_nothing_is_unpickled():
    stream = torch.tensor([1.0])
    layout = ArrayLayout.of(record(weight=stream.numpy()))
    pickled = np.array([print], dtype=object).dumps()
    evil = ArrayRecord({"weight": Array("float32", (1,), "numpy.ndarray", b"\x93NUMPY" + pickled)})
    assert "holds something unreadable" in layout.vector(evil)
    other = ArrayRecord({"weight": Array("float32", (1,), "pickle", pickled)})
    assert "holds something unreadable" in layout.vector(other)


@pytest.mark.parametrize("arrays", [{}, {"count": np.int64(1)}, {"w": np.zeros(1, np.complex128)}])
def test_a_model_without_parameters_is_refused(arrays):
    with pytest.raises(FedkinError):
        ArrayLayout.of(record(**arrays))


def test_methods_know_the_model_as_an_architecture():
    module = network()
    given_ = ArrayRecord(module.state_dict())
    layout = ArrayLayout.of(given_)
    with registered_model(layout, layout.vector(given_)) as name:
        classifier = Classifier.of({"name": name, "shape": [1, 3, 3], "classes": 5})
        assert classifier.parameters == sum(part.numel() for part in module.parameters())
        assert classifier.size - classifier.floats == 1
        assert classifier.floats - classifier.parameters == 6
        assert classifier.leading(2) == 3 * 4 + 3
        assert torch.equal(classifier.initial(torch.Generator()), vector_of(module))
    del classifier
    gc.collect()
    with pytest.raises(FedkinError, match="Unknown model"):
        Classifier(name, (1, 3, 3), 5)


def header(shape: str) -> bytes:
    """An array's file that ends after its header."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def zipped() -> bytes:
    file = io.BytesIO()
    np.savez(file, weight=np.zeros(2, np.float32))
    return file.getvalue()


@pytest.mark.parametrize("data", [zipped(), header("(4000000000000,)"), header("(2,"), header("(2,)"), b""])
def test_bytes_that_are_no_array_are_reported(data):
    layout = ArrayLayout.of(record(weight=np.zeros(2, np.float32)))
    found = layout.vector(ArrayRecord({"weight": Array("float32", (2,), "numpy.ndarray", data)}))
    assert found.startswith("array 'weight' holds something ")


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("float32", (4000000000000,)), ("float32", (2, 1)), ("object", (2,)), ("(1,", (2,)), ("", (2,))],
)
def test_what_says_itself_that_it_is_another_is_not_opened(dtype, shape, monkeypatch):
    layout = ArrayLayout.of(record(weight=np.zeros(2, np.float32)))
    monkeypatch.setattr(Array, "numpy", lambda array: pytest.fail("It was opened."))
    found = layout.vector(ArrayRecord({"weight": Array(dtype, shape, "numpy.ndarray", b"")}))
    assert found.startswith("array 'weight' ")
