"""Hugging Face data sets that are in memory, and Flower's federations of them."""

from typing import Any

import datasets
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from fedkin.core import FedkinError
from fedkin.data.inputs import client_input, federation_input

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
