"""Clients in every form that users pass, and what they give by mistake."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
)

from fedkin.core import FedkinError
from fedkin.data.inputs import client_data, form_of, load_clients, split_clients
from fedkin.data.sources import load
from fedkin.data.tables import as_tensor

RNG = np.random.default_rng(0)


def pictures(count: int, shape: tuple[int, ...]) -> list[Image.Image]:
    return [Image.fromarray(RNG.integers(0, 256, shape, dtype=np.uint8)) for _ in range(count)]


@pytest.mark.parametrize(("shape", "channels"), [((8, 6), 1), ((8, 6, 3), 3)])
def test_lists_of_pictures_and_of_their_paths_are_the_same_clients(
    shape: tuple[int, ...], channels: int, tmp_path: Path
) -> None:
    clients = [pictures(count, shape) for count in (4, 2)]
    paths = [[str(tmp_path / f"{i}-{number}.png") for number in range(len(own))] for i, own in enumerate(clients)]
    for own, of_client in zip(clients, paths, strict=True):
        for picture, path in zip(own, of_client, strict=True):
            picture.save(path)
    pixels = np.concatenate([np.atleast_3d(np.asarray(one)).transpose(2, 0, 1).ravel() for one in clients[1]])
    for form in (clients, paths, [list(map(Path, own)) for own in paths], dict(zip("ab", paths, strict=True))):
        first, second = load_clients(form)
        assert first.x.shape == (4, channels, 8, 6)
        assert second.x.flatten().numpy() == pytest.approx(pixels / 255)


X = np.arange(8.0).reshape(4, 2)
Y = np.array([0, 1, 0, 1])
FRAME = pd.DataFrame(X, columns=["a", "b"]).assign(kind=Y)


@pytest.mark.parametrize(
    ("clients", "y"),
    [
        ([(X, Y), (X, Y)], None),
        ([X, X], [Y, Y]),
        ([X, X], np.stack([Y, Y])),
        (np.stack([X, X]), [Y, Y]),
        ([FRAME, FRAME], "kind"),
        ([FRAME.rename(columns={"kind": "target"})] * 2, None),
    ],
)
def test_labels_are_beside_or_inside(clients: Any, y: Any) -> None:
    sites = load_clients(clients, y)
    assert [site.name for site in sites] == ["Client 0", "Client 1"]
    assert [(site.y.tolist(), site.x.tolist()) for site in sites if site.y is not None] == [
        (Y.tolist(), X.tolist())
    ] * 2


def test_clients_keep_their_names_and_numbers_are_names() -> None:
    assert [site.name for site in load_clients({"north": X, 7: X})] == ["north", "7"]
    for y in ({"south": 1 - Y, "north": Y}, [Y, 1 - Y]):
        sites = load_clients({"north": X, "south": X}, y)
        assert [site.y.tolist() for site in sites if site.y is not None] == [Y.tolist(), (1 - Y).tolist()]


@pytest.mark.parametrize(
    ("value", "several"),
    [
        (X, False),
        ((X, Y), False),
        (FRAME, False),
        ("a.csv", False),
        ([X, X], True),
        ([(X, Y)], True),
        ({"north": X}, True),
        (["the pump leaks", "it was paid twice"], False),
        ([["the pump leaks", "it was paid twice"], ["oil"]], True),
        ([FRAME], True),
    ],
)
def test_one_client_is_told_from_several(value: Any, several: bool) -> None:
    assert (split_clients(value) is not None) == several


@pytest.mark.parametrize("keys", ["clinic", ["clinic"], pd.Series(["south", "north", "south", "north"])], ids=str)
def test_a_table_divided_by_a_column_is_clients_by_name_without_it(keys: Any) -> None:
    whole = FRAME.assign(clinic=["south", "north", "south", "north"])
    sites = load_clients(whole.groupby(keys), "kind")
    assert [site.name for site in sites] == ["north", "south"]
    assert all(site.features == (["a", "b"] + ["clinic"] * isinstance(keys, pd.Series)) for site in sites)
    assert [site.y.tolist() for site in sites if site.y is not None] == [[1, 1], [0, 0]]
    assert [site.name for site in load_clients(whole.groupby(["clinic", "kind"]))] == ["north, 1", "south, 0"]


PAIR_OF_SETS = (TensorDataset(torch.tensor(X)), TensorDataset(torch.tensor(X)))


@pytest.mark.parametrize(
    ("clients", "y", "words"),
    [
        (FRAME, None, "DataFrame; table.groupby"),
        (X, None, "got a single or empty ndarray"),
        ({}, None, "got a single or empty dict"),
        ([X, X], Y, "one array of labels for each client"),
        ([(X, Y)], [Y], "labels are in y, too"),
        ([X, X], "kind", "has no column 'kind'"),
        ([X], {"north": Y}, "one array of labels for each client"),
        ({"north": X, "south": X}, {"north": Y}, "one array of labels for each client"),
        ([PAIR_OF_SETS], None, "Client 0 is of type tuple; a client's data are"),
        ([X, None], None, "Client 1 is of type NoneType; a client's data are"),
        ([DataLoader(PAIR_OF_SETS[0], collate_fn=list)], None, "a collate_fn of its own"),
    ],
)
def test_what_cannot_be_used_is_refused(clients: Any, y: Any, words: str) -> None:
    with pytest.raises(FedkinError) as raised:
        load_clients(clients, y)
    assert words in str(raised.value)


DRAWS = np.random.default_rng(0)
BLOBS = [DRAWS.normal(size=(30, 3)) + 9 * (np.arange(30) % 3)[:, None] for _ in range(3)]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.csv")
    for read in (load, lambda path: load_clients([path])):
        with pytest.raises(FedkinError, match="is no regular file"):
            read(str(tmp_path / "x.csv"))


def test_masked_values_are_missing_values() -> None:
    masked = np.ma.masked_array(BLOBS[0], mask=BLOBS[0] > 15)
    rows = int((BLOBS[0] > 15).any(1).sum())
    with pytest.raises(FedkinError, match=f"missing or infinite values in {rows} of 30 samples"):
        as_tensor(masked, "Client 0")
    assert torch.equal(as_tensor(np.ma.masked_array(BLOBS[0]), "Client 0"), as_tensor(BLOBS[0], "Client 0"))


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "npz", "parquet"])
def test_what_unpacks_beyond_the_memory_is_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, frame = tmp_path / f"zeros.{kind}", pd.DataFrame({name: np.zeros(1_000_000) for name in "ab"})
    save = dict.fromkeys(("csv", "csv.gz"), partial(frame.to_csv, index=False)) | {"parquet": frame.to_parquet}
    save.get(kind, partial(np.savez_compressed, x=frame.to_numpy()))(path)
    monkeypatch.setattr("fedkin.core.files.room", lambda: 10_000_000)
    with pytest.raises(FedkinError, match="memory"):
        load(str(path))


ITEM_X, ITEM_Y = torch.arange(12.0).view(6, 2), torch.tensor([0, 1, 2, 0, 1, 2])
PAIRS = TensorDataset(ITEM_X, ITEM_Y)


class Own(Dataset[Any]):
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, at: int) -> Any:
        return self.items[at]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(PAIRS)


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        (PAIRS, range(6)),
        (Own([(x, int(y)) for x, y in PAIRS]), range(6)),
        (Own([{"img": x.numpy(), "label": y} for x, y in PAIRS]), range(6)),
        (Subset(PAIRS, [4, 1]), [4, 1]),
        (ConcatDataset([Subset(PAIRS, [0]), Subset(PAIRS, [3])]), [0, 3]),
        (Stream(), range(6)),
        (DataLoader(PAIRS, batch_size=4, shuffle=True, drop_last=True), range(6)),
        (DataLoader(PAIRS, sampler=SubsetRandomSampler([4, 2])), [4, 2]),
        (DataLoader(Stream(), batch_size=4), range(6)),
    ],
)
def test_items_come_in_the_order_of_the_data_set(given: Any, rows: Any) -> None:
    found = client_data(given, "Client 0")
    assert torch.equal(found.x, ITEM_X[list(rows)])
    assert [found.classes[code] for code in found.y] == [str(y) for y in ITEM_Y[list(rows)].tolist()]


def test_pictures_have_the_channels_first_and_255_is_1() -> None:
    colour = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    found = client_data(Own([(Image.fromarray(colour), "cat"), (Image.fromarray(colour + 1), "dog")]), "Client 0")
    assert (found.x.dtype, found.x.shape, found.classes) == (torch.float32, (2, 3, 4, 4), ["cat", "dog"])
    assert torch.equal(found.x[0].permute(1, 2, 0), torch.from_numpy(colour) / 255)
    grey = client_data(Own([Image.fromarray(colour[..., 0])]), "Client 0")
    assert grey.x.shape == (1, 1, 4, 4)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (Own([]), "cannot be used"),
        (Own([(ITEM_X[0], 1), (ITEM_X[0, :1], 1)]), "cannot be used .*size"),
        (Own([(ITEM_X[0], 1), ITEM_X[0]]), "only some have labels"),
        (Own([("text", 1)]), "cannot be used"),
        (Own([{"a": 1, "b": 2}]), "a dict with x or image"),
    ],
)
def test_items_that_cannot_be_used_are_refused(data: Any, words: str) -> None:
    with pytest.raises(FedkinError, match=words):
        client_data(data, "Client 0")


PIXELS = np.arange(48, dtype=np.uint8).reshape(3, 4, 4)
IMAGES = datasets.Dataset.from_dict(
    {"img": list(PIXELS), "fine": [2, 0, 2], "label": [1, 0, 1]},
    features=datasets.Features(
        {"img": datasets.Image(), "fine": datasets.Value("int64"), "label": datasets.ClassLabel(names=["cat", "dog"])}
    ),
)


def test_images_and_their_labels() -> None:
    found = client_data(IMAGES, "Client 0")
    assert torch.equal(found.x[:, 0], torch.from_numpy(PIXELS) / 255)
    assert found.y.tolist() == [1, 0, 1]
    assert client_data(IMAGES, "Client 0", "fine").classes == ["0", "2"]
    with pytest.raises(FedkinError, match="Client 0 has no column 'fin'; did you mean 'fine'"):
        client_data(IMAGES, "Client 0", "fin")


class Partitioner:
    """The interface of flwr-datasets' partitioners."""

    num_partitions = 3

    def load_partition(self, partition_id: int) -> datasets.Dataset:
        return IMAGES.select([partition_id])


class FederatedDataset:
    """The interface of flwr-datasets' class of this name, which loads its data when first asked."""

    def __init__(self, *splits: str) -> None:
        self.splits, self.loaded = splits, False

    @property
    def partitioners(self) -> dict[str, Partitioner]:
        if not self.loaded:
            raise ValueError("Dataset is not loaded yet.")
        return {split: Partitioner() for split in self.splits}

    def load_partition(self, partition_id: int, split: str | None = None) -> datasets.Dataset:
        self.loaded = True
        return Partitioner().load_partition(partition_id)


@pytest.mark.parametrize("given", [Partitioner(), FederatedDataset("train"), FederatedDataset("train", "test")])
def test_partitions_are_clients_in_order_of_their_ids(given: Any) -> None:
    sites = load_clients(given)
    assert [site.x.shape for site in sites] == [(1, 1, 4, 4)] * 3
    assert [site.y.tolist() for site in sites if site.y is not None] == [[1], [0], [1]]


def test_two_parts_of_a_client_are_its_samples_and_labels_in_a_list_too():
    x, y = np.zeros((5, 3)), np.arange(5)
    assert [form_of(each) for each in ([x, y], (x, y), (x, y[:, None]), (x, None))] == ["pair"] * 4
    assert form_of([x, x]) == form_of((x, x)) == "array"  # two clients
