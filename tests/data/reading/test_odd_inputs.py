"""What people give by mistake in place of arrays, files and lists of them: a sentence, or what they meant."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import fedkin
from fedkin.core import FedkinError
from fedkin.data.reading.arrays import as_tensor
from fedkin.data.reading.client_files import load_clients
from fedkin.data.reading.dataset import encode_labels
from fedkin.data.reading.sources import load
from fedkin.data.reading.table_options import TableOptions
from fedkin.experiment.config import load_config
from fedkin.studies.question import question_of

RNG = np.random.default_rng(0)
BLOBS = [RNG.normal(size=(30, 3)) + 9 * (np.arange(30) % 3)[:, None] for _ in range(3)]


def clusters(clients: Any, **options: Any) -> int:
    return int(fedkin.KFed(n_clusters=3, random_state=0, **options).fit(clients).n_clusters_)


@pytest.mark.parametrize("read", [load, load_clients, question_of])
def test_the_home_of_nobody(read: Any) -> None:
    with pytest.raises(FedkinError, match="begins with the home of a user that this machine does not know"):
        read("~nobody-is-called-so/x.csv")


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


def test_masked_labels_are_missing_labels() -> None:
    labels = np.ma.masked_array(np.arange(30) % 3, mask=np.arange(30) < 4)
    with pytest.raises(FedkinError, match="lacks 4 of 30 labels"):
        encode_labels(labels, "Array 'y'")
    with pytest.raises(FedkinError, match="Clients 0 to 2 have masked labels"):
        fedkin.FedAvg(rounds=1).fit([(x, labels) for x in BLOBS])


@pytest.mark.parametrize("scale", [1e-30, 1e-42])
def test_tiny_data_are_scaled(scale: float) -> None:
    tiny = [(x - x.min()) / (x.max() - x.min()) * scale for x in BLOBS]
    assert clusters(tiny) == 3
    assert len(np.unique(fedkin.KFed(n_clusters=3, random_state=0).fit(tiny).labels_[0])) == 3
    assert fedkin.KinGraph(min_members=2, random_state=0).fit(tiny).n_clusters_ > 1


def test_data_that_float32_has_as_zero_are_refused() -> None:
    with pytest.raises(FedkinError, match="Clients 0 to 2 have no value above 2e-49, which is 0 in float32"):
        clusters([x / np.abs(x).max() * 2e-49 for x in BLOBS])


def test_iterators_and_dictionaries_of_clients() -> None:
    expected = fedkin.KFed(n_clusters=3, random_state=0).fit(BLOBS).labels_
    for given in ((x for x in BLOBS), map(np.asarray, BLOBS), dict(zip("abc", BLOBS, strict=True))):
        found = fedkin.KFed(n_clusters=3, random_state=0).fit(given).labels_
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    y = np.arange(30) % 3
    assert len(fedkin.FedAvg(rounds=1, random_state=0).fit((x, y) for x in BLOBS).client_labels_) == 3


@pytest.mark.parametrize(
    ("client", "kind"),
    [((row for row in BLOBS[0]), "generator"), ({"a": 1.0}, "dict"), ({1.0}, "set"), (None, "NoneType")],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_client_is_named(client: Any, kind: str) -> None:
    with pytest.raises(FedkinError, match=f"Client 1 is of type {kind}; a client's data are an array, a tensor"):
        clusters([BLOBS[0], client])


@pytest.mark.parametrize("given", [None, 3, object()], ids=lambda value: type(value).__name__)
def test_what_is_no_list_of_clients_is_named(given: Any) -> None:
    with pytest.raises(FedkinError, match=f"fit takes clients in a list, .*; got {type(given).__name__}"):
        clusters(given)
    with pytest.raises(FedkinError, match=f"compare takes clients in a list, .*; got {type(given).__name__}"):
        fedkin.compare(given)


def test_missing_columns_are_named_in_few_words() -> None:
    wide = pd.DataFrame(RNG.normal(size=(6, 600)))
    model = fedkin.KFed(n_clusters=2, random_state=0).fit([wide, wide])
    with pytest.raises(FedkinError) as caught:
        model.predict(pd.DataFrame(RNG.normal(size=(5, 1)), columns=["a"]))
    assert len(str(caught.value)) < 500
    assert " and 580 more, which" in str(caught.value)


def test_notes_about_very_many_columns_are_few() -> None:
    words = pd.DataFrame(RNG.choice(["a", "b", "c"], size=(12, 300)), columns=[f"c{at}" for at in range(300)])
    rare = words.where(RNG.random(words.shape) < 0.2)
    found = fedkin.KFed(n_clusters=2, random_state=0, lacking="impute").fit([words, rare])
    assert sum(map(len, found.preparation_.notes)) < 3_000


def test_hidden_files_are_no_clients(tmp_path: Path) -> None:
    """Other systems leave copies such as ``._north.csv`` beside a file."""
    for name in ("north.csv", "south.csv"):
        (tmp_path / name).write_text("a,b\n1,2\n3,5\n")
    (tmp_path / "._north.csv").write_bytes(b"\0\5\x16\7")
    assert len(load_clients(tmp_path)) == 2


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


@pytest.mark.parametrize("cell", [["x"], {"a": 1}, {1}, np.zeros(2)], ids=["list", "dict", "set", "array"])
def test_a_cell_that_is_no_single_value_is_refused_unless_dropped(cell: Any) -> None:
    frame = pd.DataFrame({"a": range(9), "t": pd.Series([cell] * 9, dtype=object)})
    with pytest.raises(FedkinError):
        load_clients([frame])
    with pytest.raises(FedkinError):
        load_clients([frame], label="t")
    assert load_clients([frame], options=TableOptions(drop=["t"]))[0].features == ["a"]


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


def test_folders_of_images_are_clients_or_said_to_be_classes(tmp_path: Path) -> None:
    for site in ("north", "south"):
        (tmp_path / "sites" / site).mkdir(parents=True)
        for at in range(4):
            Image.fromarray(np.full((8, 8), 9 * at, dtype=np.uint8)).save(tmp_path / "sites" / site / f"{at}.png")
    clients = load_clients(tmp_path / "sites")
    assert [(one.name, tuple(one.x.shape), one.y) for one in clients] == [
        ("north", (4, 1, 8, 8), None), ("south", (4, 1, 8, 8), None),
    ]  # fmt: skip
    source = [f"data.source={tmp_path / 'sites'}", "scenario.clients=2", "scenario.test_fraction=0"]
    dealt = load_config("kfed", [*source, "scenario.name=iid"]).population()
    assert any("--scenario files" in note for note in dealt.notes)
