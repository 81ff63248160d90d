"""Trees as files: what was written is read, and nothing else is."""

from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given

from fedkin.core.errors import FedkinError
from fedkin.core.files import FileError
from fedkin.core.payload import from_bytes, load_tree, owned, save_tree, to_bytes, with_checksum
from fuzzing import damaged_bytes, fuzzed

TREE = owned({"x": torch.arange(12.0).view(3, 4), "name": "größe", "deep": {"y": torch.ones(2).bool(), "n": [1, None]}})


def test_every_flipped_bit_of_a_file_is_found(tmp_path: Path) -> None:
    path, content = tmp_path / "tree", with_checksum(TREE)
    for at in range(len(content)):
        for bit in (0, 3, 5):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
            with pytest.raises(FileError, match=r"tree is damaged: its checksum|Cannot read .*tree: it is not a file"):
                load_tree(path)
    path.write_bytes(content)
    assert load_tree(path)["x"].tolist() == TREE["x"].tolist()


def test_a_flipped_number_is_named_as_damage(tmp_path: Path) -> None:
    save_tree(tmp_path / "tree", TREE)
    content = bytearray((tmp_path / "tree").read_bytes())
    content[-1] ^= 1
    (tmp_path / "tree").write_bytes(content)
    with pytest.raises(FileError, match=r"^/.*tree is damaged: its checksum is not that of its content\.$"):
        load_tree(tmp_path / "tree")


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
