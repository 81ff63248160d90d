import errno
import os
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given

from fedkin.core import FedkinError
from fedkin.core.files import (
    LOCK,
    append_durably,
    environment,
    file_lock,
    folder_lock,
    make_private,
    read_json,
    write_atomically,
)
from fuzzing import damaged_bytes, fuzzed


@pytest.mark.parametrize(("before", "after"), [(None, 0o700), (0o755, 0o700), (0o500, 0o700), (0o1777, 0o1777)])
def test_a_private_folder_is_its_owners_alone_unless_all_may_write_there(
    before: int | None, after: int, tmp_path: Path
) -> None:
    folder = tmp_path / "private"
    if before is not None:
        folder.mkdir()
        folder.chmod(before)
    make_private(folder)
    assert folder.stat().st_mode & 0o7777 == after


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_full_disk_leaves_the_last_file_whole(function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, function, full)
    with pytest.raises(FedkinError, match=r"^Cannot write .*file: No space left on device; nothing half-written"):
        write_atomically(path, "new")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "old"


def test_text_is_appended_whole_or_refused_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write = tmp_path / "lines", os.write
    append_durably(path, "one\n")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda handle, content: write(handle, content[:2]))
        append_durably(path, "second\n")
    assert path.read_text() == "one\nsecond\n"
    with pytest.raises(FedkinError, match=r"^Cannot write .*lines/file: Not a directory; nothing"):
        append_durably(path / "file", "")


def test_a_locked_file_is_refused_to_others_until_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("")
    with file_lock(path), pytest.raises(FedkinError, match="Another process is at work in"), file_lock(path):
        pass
    with file_lock(path):
        pass


def test_a_locked_folder_is_left_as_it_was(tmp_path: Path) -> None:
    with folder_lock(tmp_path / "a" / "b"):
        assert [file.name for file in (tmp_path / "a" / "b").iterdir()] == [LOCK]
        with folder_lock(tmp_path / "a" / "b"):  # once more, by the same
            pass
        with pytest.raises(FedkinError, match="Another process is at work in"):
            Context().run(folder_lock(tmp_path / "a" / "b").__enter__)
        assert (tmp_path / "a" / "b" / LOCK).exists()  # who came second took nothing away
    assert list(tmp_path.iterdir()) == []
    (tmp_path / LOCK).touch()  # of one that was killed
    with pytest.raises(KeyError), folder_lock(tmp_path):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


@dataclass
class Kept:
    step: int
    names: dict[str, list[float]]


def test_a_damaged_json_file_is_of_its_kind_or_refused_in_one_sentence(tmp_path: Path) -> None:
    path, ends = tmp_path / "kept.json", {True: 0, False: 0}

    @fuzzed(100)
    @given(damaged_bytes(b'{"step": 12, "names": {"a": [1.5, 2], "b": []}}'))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        try:
            kept = read_json(path, Kept, "; remove it")
        except FedkinError:
            ends[False] += 1
        else:
            assert type(kept.step) is int
            assert all(type(value) is float for values in kept.names.values() for value in values)
            ends[True] += 1

    check()
    assert min(ends.values()) > 0


def test_the_environment_is_as_it_was_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDKIN_A", "users")
    with environment(FEDKIN_A="ours", FEDKIN_B="ours"):
        assert (os.environ["FEDKIN_A"], os.environ["FEDKIN_B"]) == ("users", "ours")
    assert os.environ["FEDKIN_A"] == "users"
    assert "FEDKIN_B" not in os.environ
