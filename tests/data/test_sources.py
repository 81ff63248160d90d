"""Data sets by name, and in Hugging Face layout."""

from __future__ import annotations

import io

import datasets
import numpy as np
import pytest
import torch
from PIL import Image

from fedkin.core.errors import FedkinError
from fedkin.data import sources as module
from fedkin.data.inputs import load_clients
from fedkin.data.names import EMBEDDED
from fedkin.data.options import TableOptions
from fedkin.data.sources import decode_images, load
from fedkin.data.tables import Dataset


def test_names_are_looked_for_below_fedkin_data_and_on_the_hub_if_that_is_asked_for(tmp_path, monkeypatch):
    asked = []

    def read(source, *rest):
        asked.append((source, *rest[:4]))
        return Dataset(source, torch.zeros(1, 1))

    monkeypatch.setattr(module, "read_huggingface", read)
    monkeypatch.setenv("FEDKIN_DATA", str(tmp_path))
    (tmp_path / "my_set").mkdir()
    load("my-set", "kind", "test")
    load("my_set")
    load("hf:my-set")
    load("hf:owner/other")
    monkeypatch.delenv("FEDKIN_DATA")
    load("hf:my-set")
    with pytest.raises(FedkinError):
        load("my-set")
    mirrored = str(tmp_path / "my_set")
    assert asked == [
        (mirrored, "my-set", "kind", "test", None),
        (mirrored, "my_set", None, "train", None),
        (mirrored, "hf:my-set", None, "train", None),
        ("owner/other", "hf:owner/other", None, "train", None),
        ("my-set", "hf:my-set", None, "train", None),
    ]


def test_clients_come_in_order_of_file_name_with_common_classes(tmp_path):
    (tmp_path / "b.csv").write_text("a,label\n1,dog\n2,fish\n")
    (tmp_path / "a.csv").write_text("a,label\n3,cat\n4,dog\n")
    (tmp_path / "README.md").write_text("not a client")
    (tmp_path / "c.csv").write_text("a\n5\n")
    sites = load_clients(str(tmp_path))
    assert [site.name for site in sites] == ["a.csv", "b.csv", "c.csv"]
    assert [site.x[:, 0].tolist() for site in sites] == [[3, 4], [1, 2], [5]]
    assert [site.classes for site in sites] == [["cat", "dog", "fish"]] * 3
    assert [site.y.tolist() for site in sites[:2]] == [[0, 1], [1, 2]]
    assert sites[2].y is None


def test_tables_may_differ_in_columns_and_arrays_in_nothing(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("c,a\n1,2\n")
    assert [site.features for site in load_clients(str(tmp_path))] == [["a", "b"], ["c", "a"]]
    np.savez(tmp_path / "c.npz", x=np.array([[5, 6]]))
    with pytest.raises(FedkinError, match=r"^'.*a\.csv' is a table and '.*c\.npz' an array;"):
        load_clients(str(tmp_path))
    with pytest.raises(FedkinError, match=r"^Client 1 has 3 features where others have 2 features; all clients need"):
        load_clients([np.zeros((2, 2)), np.zeros((2, 3)), np.zeros((2, 2))])


def test_every_embedded_name_loads():
    assert {name for name in EMBEDDED if len(load(name)) > 100} == set(EMBEDDED)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))


def picture(pixels, mode=None):
    image = Image.fromarray(np.asarray(pixels, dtype=np.uint8))
    return image if mode is None else image.convert(mode)


def encoded(pixels, mode=None, kind="PNG"):
    file = io.BytesIO()
    picture(pixels, mode).save(file, kind)
    return {"bytes": file.getvalue(), "path": None}


def write(folder, columns, features=None, split="train"):
    data = datasets.Dataset.from_dict(columns, features=features and datasets.Features(features))
    (folder / "data").mkdir(exist_ok=True)
    data.to_parquet(folder / "data" / f"{split}-00000-of-00001.parquet")
    return str(folder)


GREY = [np.full((2, 3), value) for value in (0, 51, 255)]


def test_grey_images_with_class_labels(tmp_path):
    columns = {"image": [picture(pixels) for pixels in GREY], "note": list("abc"), "kind": [1, 0, 1]}
    features = {
        "image": datasets.Image(),
        "note": datasets.Value("string"),
        "kind": datasets.ClassLabel(names=["u", "v"]),
    }
    source = write(tmp_path, columns, features)
    write(tmp_path, {name: values[:1] for name, values in columns.items()}, features, split="test")
    dataset = load(source)
    assert dataset.x.shape == (3, 1, 2, 3)
    assert dataset.x.dtype == torch.float32
    assert torch.allclose(dataset.x[:, 0, 0, 0], torch.tensor([0, 0.2, 1]))
    assert dataset.y.tolist() == [1, 0, 1]
    assert dataset.classes == ["u", "v"]
    assert dataset.features == []
    assert load(source, label="note").classes == ["a", "b", "c"]
    assert len(load(source, split="test")) == 1


def test_a_table_may_hold_categories_and_empty_cells(tmp_path):
    kinds = {
        "a": datasets.ClassLabel(names=["u", "v"]),
        "b": datasets.Value("string"),
        "label": datasets.Value("int64"),
    }
    source = write(tmp_path, {"a": [1, 0], "b": ["yes", None], "label": [3, 4]}, kinds)
    read = load(source)
    assert [(one.name, one.kind, one.categories) for one in read.table.columns] == [
        ("a", "category", ("u", "v")),
        ("b", "boolean", ("no", "yes")),
    ]
    assert read.x.nan_to_num(-1).tolist() == [[1, 1], [0, -1]]
    assert load(source, options=TableOptions(drop=["a", "label"])).y is None


@pytest.mark.parametrize(("mode", "channels"), [("1", 1), ("LA", 1), ("P", 3), ("RGBA", 3)])
def test_other_modes_become_grey_or_colour(mode, channels):
    x = decode_images([encoded(GREY[2], mode)], "It")
    assert x.shape == (1, channels, 2, 3)
    assert x.is_contiguous()  # with channels last sums would round otherwise
    assert x.amin() == 1


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ({"bytes": encoded(GREY[0])["bytes"][:40], "path": None}, "Row 1 of It is an image that cannot be decoded"),
        (encoded(np.zeros((4, 3))), "different sizes: row 1 is 4 x 3 where row 0 is 2 x 3"),
        (encoded(GREY[0], "I;16"), "more than 8 bits"),
    ],
)
def test_images_that_cannot_be_used_are_refused(file, words):
    with pytest.raises(FedkinError, match=words):
        decode_images([encoded(GREY[0]), file], "It")
