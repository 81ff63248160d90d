import gc
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.payload import pack, unpack

plain = (
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
tensors = st.integers(0, 4).map(lambda n: torch.arange(n, dtype=torch.float32))
names = st.text(max_size=5).filter(lambda name: name != "__tensor__")
trees = st.dictionaries(
    names,
    st.recursive(
        plain | tensors, lambda t: st.lists(t, max_size=3) | st.dictionaries(names, t, max_size=3), max_leaves=6
    ),
    max_size=4,
)


def same(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@given(trees)
def test_round_trip(tree):
    assert same(tree, unpack(*pack(tree)))


def test_only_tensors_and_plain_values_cross():
    with pytest.raises(TypeError, match="holds a set"):
        pack({"x": {1, 2}})
    with pytest.raises(TypeError, match="keys must be strings"):
        pack({"x": {1: 2}})


def test_no_tensor_waits_for_the_collection_of_garbage():
    def kept() -> list[weakref.ref[torch.Tensor]]:
        packed, text = pack({"models": [torch.zeros(3)]})
        read = {"/models/0": torch.zeros(3)}
        unpack(read, text)
        return [weakref.ref(tensor) for tensor in (*packed.values(), *read.values())]

    gc.disable()
    try:
        assert [one() for one in kept()] == [None, None]
    finally:
        gc.enable()
