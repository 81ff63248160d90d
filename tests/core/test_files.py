import errno
import os
from pathlib import Path

import pytest

from fedkin.core import FedkinError
from fedkin.core.files import held, write_atomically


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


def test_an_impossible_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(FedkinError, match=r"^Cannot write .*taken/file: "):
        write_atomically(tmp_path / "taken" / "file", "new")


def test_a_held_file_is_refused_to_others_until_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("")
    with held(path), pytest.raises(FedkinError, match="Another process is at work in"), held(path):
        pass
    with held(path):
        pass
