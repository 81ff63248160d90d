import io

import datasets
import numpy as np
import pytest
import torch
from PIL import Image

from fedkin.core.errors import FedkinError
from fedkin.data.reading.huggingface import decode_images
from fedkin.data.reading.sources import load
from fedkin.data.reading.table_options import TableOptions


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


def test_colour_images_with_an_integer_column(tmp_path):
    pixels = np.arange(2 * 3 * 3).reshape(2, 3, 3)
    features = {"img": datasets.Image(), "number": datasets.Value("int64")}
    dataset = load(write(tmp_path, {"img": [picture(pixels)], "number": [7]}, features))
    assert dataset.x.shape == (1, 3, 2, 3)
    assert torch.allclose(dataset.x[0] * 255, torch.from_numpy(pixels).permute(2, 0, 1).float())
    assert dataset.classes == ["7"]


def test_numeric_tables_keep_all_declared_classes(tmp_path):
    features = {
        "a": datasets.Value("float64"),
        "b": datasets.Value("bool"),
        "target": datasets.ClassLabel(names=["z", "y", "x"]),
    }
    dataset = load(write(tmp_path, {"a": [0.5, 2.0], "b": [True, False], "target": [2, 0]}, features))
    assert dataset.x.tolist() == [[0.5, 1.0], [2.0, 0.0]]
    assert dataset.features == ["a", "b"]
    assert dataset.y.tolist() == [2, 0]
    assert dataset.classes == ["z", "y", "x"]


def test_a_column_of_clusters_is_no_feature_and_not_taken_for_labels(tmp_path):
    source = write(tmp_path, {"a": [1, 2, 3], "domain": ["v", "u", "v"], "label": ["k", "k", "l"]})
    dataset = load(source, cluster="domain")
    assert (dataset.features, dataset.y.tolist()) == (["a"], [0, 0, 1])
    clusters, names = dataset.clusters
    assert (clusters.tolist(), names) == ([1, 0, 1], ["u", "v"])
    assert load(source, "domain", cluster="label").classes == ["u", "v"]


def test_an_integer_column_of_clusters_leaves_the_other_for_labels(tmp_path):
    columns = {"image": [picture(GREY[0])] * 2, "domain": [0, 1], "number": [7, 8]}
    dataset = load(write(tmp_path, columns, {"image": datasets.Image(), "domain": datasets.Value("int64"),
                                             "number": datasets.Value("int64")}), cluster="domain")  # fmt: skip
    assert dataset.classes == ["7", "8"]
    assert dataset.clusters[0].tolist() == [0, 1]


def test_integers_of_a_table_are_features_not_labels(tmp_path):
    dataset = load(write(tmp_path, {"count": [1, 2]}))
    assert dataset.y is None
    assert dataset.features == ["count"]


@pytest.mark.parametrize(
    ("columns", "features", "arguments", "sentence"),
    [
        (
            {"a": [[1, 2]]},
            None,
            {},
            "Column 'a' of '{}' holds values of type ndarray, but a cell needs a number, text or date; write "
            "their parts into columns, or name it in drop.",
        ),
        ({"a": [1]}, None, {"label": "kind"}, "'{}' has no column 'kind'; it has a."),
        ({"a": [1]}, None, {"cluster": "kind"}, "'{}' has no column 'kind'; it has a."),
        (
            {"a": [1.0, float("inf")]},
            None,
            {},
            "Column 'a' of '{}' has 1 infinite values in 2 rows; empty these cells, or set na_values = "
            '{{a = ["inf", "-inf"]}}.',
        ),
        (
            {"a": [1, 2], "label": [0, None]},
            {"a": datasets.Value("int64"), "label": datasets.ClassLabel(names=["u"])},
            {},
            "Column 'label' of '{}' lacks 1 of 2 labels; leave out the rows without one, or the labels altogether.",
        ),
        (
            {"image": [None]},
            {"image": datasets.Image()},
            {},
            "'{}' has no image in row 0.",
        ),
        (
            {"a": [1]},
            None,
            {"split": "test"},
            "'{}' cannot be loaded as split 'test' of a Hugging Face data set "
            "(Unknown split \"test\". Should be one of ['train']).",
        ),
    ],
)
def test_directories_that_cannot_be_used_are_refused(tmp_path, columns, features, arguments, sentence):
    source = write(tmp_path, columns, features)
    with pytest.raises(FedkinError) as error:
        load(source, **arguments)
    assert str(error.value) == sentence.format(source)


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


def test_empty_and_broken_directories_are_refused(tmp_path):
    with pytest.raises(FedkinError, match="holds no files"):
        load(str(tmp_path))
    (tmp_path / "train.parquet").write_bytes(b"broken")
    with pytest.raises(FedkinError, match="cannot be loaded as split 'train' of a Hugging Face data set"):
        load(str(tmp_path))


def test_a_directory_without_rows_is_refused(tmp_path):
    source = write(tmp_path, {"a": []}, {"a": datasets.Value("int64")})
    with pytest.raises(
        FedkinError, match=r"cannot be loaded as split 'train' .* \(Instruction \"train\" corresponds to no"
    ):
        load(source)


def test_grey_becomes_colour_where_any_image_is():
    x = decode_images([encoded(GREY[1]), encoded(np.zeros((2, 3, 3)), kind="JPEG")], "It")
    assert x.shape == (2, 3, 2, 3)
    assert torch.allclose(x[0], torch.tensor(0.2))
    assert x[1].amax() == 0


@pytest.mark.parametrize(("mode", "channels"), [("1", 1), ("LA", 1), ("P", 3), ("RGBA", 3)])
def test_other_modes_become_grey_or_colour(mode, channels):
    x = decode_images([encoded(GREY[2], mode)], "It")
    assert x.shape == (1, channels, 2, 3)
    assert x.amin() == 1


def test_images_beside_their_data_set_are_read_by_path(tmp_path):
    picture(GREY[1]).save(tmp_path / "a.png")
    assert torch.allclose(decode_images([{"bytes": None, "path": str(tmp_path / "a.png")}], "It"), torch.tensor(0.2))


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ({"bytes": b"broken", "path": None}, "It has an image that cannot be decoded in row 1."),
        ({"bytes": encoded(GREY[0])["bytes"][:40], "path": None}, "It has an image that cannot be decoded in row 1."),
        (encoded(np.zeros((4, 3))), "It has images of different sizes: row 1 is 4 x 3 where row 0 is 2 x 3."),
        (encoded(GREY[0], "I;16"), "It has an image of more than 8 bits per channel in row 1 (mode I;16)."),
    ],
)
def test_images_that_cannot_be_used_are_refused(file, sentence):
    with pytest.raises(FedkinError) as error:
        decode_images([encoded(GREY[0]), file], "It")
    assert str(error.value) == sentence


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "split", "shape", "classes"),
    [
        ("mnist", "test", (10000, 1, 28, 28), 10),
        ("fashion-mnist", "test", (10000, 1, 28, 28), 10),
        ("cifar10", "test", (10000, 3, 32, 32), 10),
        ("pacs", "train", (9991, 3, 64, 64), 7),
        ("kkanji49", "test", (6056, 1, 28, 28), 49),
    ],
)
def test_real_image_sets(name, split, shape, classes, real):
    real(name.replace("-", "_"))
    dataset = load(name, split=split)
    assert dataset.x.shape == shape
    assert (dataset.x.amin(), dataset.x.amax()) == (0, 1)
    assert len(dataset.classes) == len(dataset.y.unique()) == classes
