"""Samples that are too many for memory."""

import errno
import gc
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset

import fedkin
from fedkin.core import FedkinError
from fedkin.data import arrays as disk_store
from fedkin.data.arrays import as_tensor, is_on_disk, new_store
from fedkin.data.inputs import client_input


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder for temporary files, where all that has a thousand bytes is too large for memory."""
    monkeypatch.setattr(disk_store, "LARGE", 1000)
    monkeypatch.setattr(disk_store.tempfile, "tempdir", str(tmp_path))
    return tmp_path


class Images(Dataset[Any]):
    """Bytes of colour images, of two kinds."""

    def __init__(self, value: int = 50) -> None:
        self.value = value

    def __len__(self) -> int:
        return 40

    def __getitem__(self, at: int) -> Any:
        return torch.full((3, 4, 4), self.value * (at % 2) + 5, dtype=torch.uint8), at % 2


def test_a_large_store_is_a_file_without_a_name(small: Path) -> None:
    assert not is_on_disk(new_store(10, (2,), torch.float32, "Client 0"))
    store = new_store(100, (2, 3), torch.float32, "Client 0")
    store[:] = 7
    assert is_on_disk(store[1:])
    assert float(store.sum()) == 4200
    assert list(small.iterdir()) == []


def test_a_full_disk_is_a_sentence(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(FedkinError, match=r"^Client 0 holds 0\.0 GiB, for which .* \(No space left on device\); name"):
        new_store(1000, (3,), torch.float32, "Client 0")
    assert list(small.iterdir()) == []


def test_a_data_set_on_disk_trains_the_same_models_and_stays_there(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = client_input(Images(), "Client 0")
    read = as_tensor(found.x, "Client 0")
    assert is_on_disk(read)
    assert read.data_ptr() == found.x.data_ptr()
    options: dict[str, Any] = {"rounds": 1, "scaling": "none", "random_state": 0, "batch_size": 8}
    seen: list[bool] = []
    original = fedkin.FedAvg._run

    def watched(self: Any, clients: Any, *more: Any) -> Any:
        outcome = original(self, clients, *more)
        seen.extend(is_on_disk(client.x) for client in clients)
        return outcome

    monkeypatch.setattr(fedkin.FedAvg, "_run", watched)
    model = fedkin.FedAvg(**options).fit([Images(), Images(90)])
    assert seen == [True, True]
    monkeypatch.setattr(disk_store, "LARGE", 10**9)
    again = fedkin.FedAvg(**options).fit([Images(), Images(90)])
    assert torch.equal(model.result_["models"], again.result_["models"])
    assert seen == [True, True, False, False]
    del model
    gc.collect()
