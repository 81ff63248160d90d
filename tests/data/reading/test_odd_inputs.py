"""What people give by mistake in place of arrays, files and lists of them: a sentence, or what they meant."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import fedkin
from fedkin.core import FedkinError
from fedkin.data.arrays import as_tensor
from fedkin.data.inputs import load_clients
from fedkin.data.options import TableOptions
from fedkin.data.sources import load

RNG = np.random.default_rng(0)
BLOBS = [RNG.normal(size=(30, 3)) + 9 * (np.arange(30) % 3)[:, None] for _ in range(3)]


def clusters(clients: Any, **options: Any) -> int:
    return int(fedkin.KFed(n_clusters=3, random_state=0, **options).fit(clients).n_clusters_)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.csv")
    with pytest.raises(FedkinError, match="is no regular file, but a pipe or device"):
        load(str(tmp_path / "x.csv"))
    with pytest.raises(FedkinError, match="is no regular file, but a pipe or device"):
        load_clients([tmp_path / "x.csv"])


def test_masked_values_are_missing_values() -> None:
    masked = np.ma.masked_array(BLOBS[0], mask=BLOBS[0] > 15)
    rows = int((BLOBS[0] > 15).any(1).sum())
    for value in (masked, list(masked)):
        with pytest.raises(FedkinError, match=f"missing or infinite values in {rows} of 30 samples"):
            as_tensor(value, "Client 0")
    assert torch.equal(as_tensor(np.ma.masked_array(BLOBS[0]), "Client 0"), as_tensor(BLOBS[0], "Client 0"))
    model = fedkin.KFed(n_clusters=3, random_state=0).fit(BLOBS)
    with pytest.raises(FedkinError, match="missing or infinite"):
        model.predict(masked)


@pytest.mark.parametrize(
    ("client", "kind"),
    [((row for row in BLOBS[0]), "generator"), ({"a": 1.0}, "dict"), ({1.0}, "set"), (None, "NoneType")],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_client_is_named(client: Any, kind: str) -> None:
    with pytest.raises(FedkinError, match=f"Client 1 is of type {kind}; a client's data are an array, a tensor"):
        clusters([BLOBS[0], client])


@pytest.mark.parametrize("kind", ["csv.gz", "npz", "parquet"])
def test_what_unpacks_beyond_the_memory_is_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, frame = tmp_path / f"zeros.{kind}", pd.DataFrame({name: np.zeros(1_000_000) for name in "ab"})
    if kind == "csv.gz":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path)
    else:
        np.savez_compressed(path, x=frame.to_numpy())
    monkeypatch.setattr("fedkin.core.files.room", lambda: 10_000_000)
    with pytest.raises(FedkinError, match="memory"):
        load(str(path))


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's on forms that it may change
@pytest.mark.parametrize("form", ["sparse", "csr", "quantised", "meta", "mkldnn", "complex"])
def test_a_tensor_without_plain_numbers_is_refused(form: str) -> None:
    x = torch.ones(3, 2)
    tensors = {
        "sparse": x.to_sparse,
        "csr": x.to_sparse_csr,
        "quantised": lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
        "meta": lambda: x.to("meta"),
        "mkldnn": x.to_mkldnn,
        "complex": lambda: x + 0j,
    }
    with pytest.raises(FedkinError):
        as_tensor(tensors[form](), "It")


@pytest.mark.parametrize(
    "cell", [["x"], {"a": 1}, {1}, np.zeros(2), (1, 2)], ids=["list", "dict", "set", "array", "tuple"]
)
def test_a_cell_that_is_no_single_value_is_refused_unless_dropped(cell: Any) -> None:
    frame = pd.DataFrame({"a": range(9), "t": pd.Series([cell] * 9, dtype=object)})
    with pytest.raises(FedkinError):
        load_clients([frame])
    with pytest.raises(FedkinError):
        load_clients([frame], label="t")
    assert load_clients([frame], options=TableOptions(drop=["t"]))[0].features == ["a"]
