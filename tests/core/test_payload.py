"""Trees as files: what was written is read, and nothing else is."""

import gc
import weakref
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.errors import FedkinError
from fedkin.core.files import FileError
from fedkin.core.payload import from_bytes, load_tree, owned, pack, to_bytes, unpack, with_checksum
from fuzzing import damaged_bytes, fuzzed

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


def test_no_tensor_waits_for_the_collection_of_garbage():
    gc.disable()
    try:
        packed, text = pack({"models": [torch.zeros(3)]})
        held = weakref.ref(unpack(packed, text)["models"][0])
        del packed
        assert held() is None
    finally:
        gc.enable()


def test_only_tensors_and_plain_values_cross():
    with pytest.raises(FedkinError, match="'x' is of type set"):
        pack({"x": {1, 2}})
    with pytest.raises(FedkinError, match="only strings can be keys"):
        pack({"x": {1: 2}})


TREE = owned({"x": torch.arange(12.0).view(3, 4), "name": "größe", "deep": {"y": torch.ones(2).bool(), "n": [1, None]}})


def test_every_flipped_bit_of_a_file_is_found(tmp_path: Path) -> None:
    path, content = tmp_path / "tree", with_checksum(TREE)
    for at in range(len(content)):
        for bit in (0, 3, 5):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
            with pytest.raises(FileError, match=r"tree is damaged, or not a file|Cannot read .*tree: it is not a file"):
                load_tree(path)
    path.write_bytes(content)
    assert load_tree(path)["x"].tolist() == TREE["x"].tolist()


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path, content = tmp_path / "tree", with_checksum(TREE)

    @fuzzed(60, 2)
    @given(damaged_bytes(content))
    def check(damaged: bytes) -> None:
        path.write_bytes(damaged)
        if damaged == content:
            load_tree(path)
        else:
            with pytest.raises(FileError):
                load_tree(path)

    check()


def test_damaged_messages_are_trees_or_refused() -> None:
    ends = Counter[bool]()

    @fuzzed(100, 2)
    @given(damaged_bytes(to_bytes(TREE)))
    def check(damaged: bytes) -> None:
        try:
            from_bytes(damaged)
        except FedkinError:
            ends[False] += 1
        else:
            ends[True] += 1

    check()
    assert ends[False] > ends[True] > 0
