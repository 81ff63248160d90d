"""Data sets of torch in every form in which people have them."""

from collections.abc import Iterator
from typing import Any

import datasets
import numpy as np
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
from fedkin.data.inputs import client_input, federation_input

X = torch.arange(12.0).view(6, 2)


Y = torch.tensor([0, 1, 2, 0, 1, 2])


PAIRS = TensorDataset(X, Y)


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
        (Own([{"pixels": x.tolist(), "y": y} for x, y in PAIRS]), range(6)),
        (Subset(PAIRS, [4, 1]), [4, 1]),
        (Subset(Subset(PAIRS, [5, 4, 3]), [2, 0]), [3, 5]),
        (Subset(Own(list(PAIRS)), [4, 1]), [4, 1]),
        (ConcatDataset([Subset(PAIRS, [0]), Subset(PAIRS, [3])]), [0, 3]),
        (Stream(), range(6)),
        (DataLoader(PAIRS, batch_size=4, shuffle=True, drop_last=True), range(6)),
        (DataLoader(PAIRS, sampler=SubsetRandomSampler([4, 2])), [4, 2]),
        (DataLoader(Subset(PAIRS, [5, 0]), batch_size=None), [5, 0]),
        (DataLoader(Stream(), batch_size=4), range(6)),
        (DataLoader(Own([{"x": x, "y": y} for x, y in PAIRS]), batch_size=4), range(6)),
    ],
)
def test_items_come_in_the_order_of_the_data_set(given: Any, rows: Any) -> None:
    found = client_input(given, "Client 0")
    assert torch.equal(found.x, X[list(rows)])
    assert found.y.tolist() == Y[list(rows)].tolist()


def test_pictures_have_the_channels_first_and_255_is_1() -> None:
    colour = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    found = client_input(Own([(Image.fromarray(colour), "cat"), (Image.fromarray(colour + 1), "dog")]), "Client 0")
    assert (found.x.dtype, found.x.shape, found.y.tolist()) == (torch.float32, (2, 3, 4, 4), ["cat", "dog"])
    assert torch.equal(found.x[0].permute(1, 2, 0), torch.from_numpy(colour) / 255)
    grey = client_input(Own([Image.fromarray(colour[..., 0])]), "Client 0")
    assert grey.x.shape == (1, 1, 4, 4)


class Broken(Own):
    def __getitem__(self, at: int) -> Any:
        raise OSError("no such file: 3.png")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (Own([]), "Client 0 is empty; every client needs at least one sample."),
        (Own([(X[0], 1), (X[0, :1], 1)]), "Item 1 of Client 0 has the shape (1,) where the first has (2,); all need"),
        (Own([(X[0], 1, 2)]), "Item 0 of Client 0 has 3 parts; an item is x, a pair (x, y), or a dict of these."),
        (Own([("text", 1)]), "Item 0 of Client 0 is of type str, which is no array of numbers."),
    ],
)
def test_items_that_cannot_be_used_are_refused(given: Any, sentence: str) -> None:
    with pytest.raises(FedkinError) as raised:
        client_input(given, "Client 0")
    assert str(raised.value).startswith(sentence)


PIXELS = np.arange(48, dtype=np.uint8).reshape(3, 4, 4)


IMAGES = datasets.Dataset.from_dict(
    {"img": list(PIXELS), "fine": [2, 0, 2], "label": [1, 0, 1]},
    features=datasets.Features(
        {"img": datasets.Image(), "fine": datasets.Value("int64"), "label": datasets.ClassLabel(names=["cat", "dog"])}
    ),
)


TABLE = datasets.Dataset.from_dict({"age": [30.0, 40.0], "ward": ["a", "b"], "target": [0, 1]})


def test_images_and_their_labels() -> None:
    found = client_input(IMAGES, "Client 0")
    assert torch.equal(found.x[:, 0], torch.from_numpy(PIXELS) / 255)
    assert found.y.tolist() == [1, 0, 1]
    assert client_input(IMAGES, "Client 0", "fine").y.tolist() == [2, 0, 2]
    with pytest.raises(FedkinError, match="Client 0 has no column 'fin'; did you mean 'fine'"):
        client_input(IMAGES, "Client 0", "fin")


def test_a_table_is_one_with_its_column_of_labels() -> None:
    found = client_input(TABLE, "Client 0")
    assert list(found.x.columns) == ["age", "ward", "target"]
    assert (found.y.tolist(), found.label) == ([0, 1], "target")


def brighter(batch: dict[str, Any]) -> dict[str, Any]:
    return {"img": [torch.tensor(np.array(one)).float()[None] + 1 for one in batch["img"]], "label": batch["label"]}


def test_a_transform_makes_the_samples_and_loaders_take_either() -> None:
    changed = IMAGES.with_transform(brighter)
    for given in (changed, DataLoader(changed, batch_size=2)):
        found = client_input(given, "Client 0")
        assert torch.equal(found.x[:, 0], torch.from_numpy(PIXELS) + 1.0)
        assert found.y.tolist() == [1, 0, 1]
    plain = client_input(DataLoader(IMAGES, batch_size=2, shuffle=True), "Client 0")
    assert torch.equal(plain.x, client_input(IMAGES, "Client 0").x)


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
    found = federation_input(given)
    assert [x.shape for x in found.source] == [(1, 1, 4, 4)] * 3
    assert [y.tolist() for y in found.labels] == [[1], [0], [1]]
