import datasets
import numpy as np
import pytest
import torch
from PIL import Image

from fedkin.core import FedkinError
from fedkin.data.scenarios.partition_scenario import hold_out, load_labelled


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))


def write(folder, split, features=None, **columns):
    (folder / "data").mkdir(exist_ok=True)
    datasets.Dataset.from_dict(columns, features=features).to_parquet(
        folder / "data" / f"{split}-00000-of-00001.parquet"
    )
    return str(folder)


def test_classes_of_both_splits_agree(tmp_path):
    write(tmp_path, "train", a=[1.0, 2.0, 3.0], kind=["cat", "fish", "cat"])
    data = load_labelled(write(tmp_path, "test", a=[4.0, 5.0], kind=["dog", "fish"]), label="kind")
    assert data.classes == ["cat", "dog", "fish"]
    assert data.y.tolist() == [0, 2, 0]
    assert data.test[0].tolist() == [[4], [5]]
    assert data.test[1].tolist() == [1, 2]
    assert data.y.dtype == data.test[1].dtype == torch.int64
    assert data.features == ["a"]
    assert len(data) == 3


def test_a_test_split_has_the_columns_of_the_training_split(tmp_path):
    write(tmp_path, "train", a=[1.0, 2.0], k=["u", "w"], label=["x", "y"])
    data = load_labelled(write(tmp_path, "test", k=["v", None], a=[3.0, None], label=["y", "x"]))
    assert data.table.columns[1].categories == ("u", "v", "w")
    assert data.x is data.table.values
    assert data.x.tolist() == [[1, 0], [2, 2]]
    assert data.test[0].nan_to_num(-1).tolist() == [[3, 1], [-1, -1]]


def test_splits_of_different_shape_are_refused(tmp_path):
    for split, side in (("train", 2), ("test", 3)):
        columns = {"image": [Image.fromarray(np.zeros((side, side), np.uint8))], "label": [0]}
        features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
        write(tmp_path, split, features, **columns)
    with pytest.raises(FedkinError) as error:
        load_labelled(str(tmp_path))
    assert str(error.value) == (
        f"The test split of '{tmp_path}' has images of 1 x 3 x 3 where others have images of 1 x 2 x 2; all clients "
        "need the same."
    )


@pytest.mark.parametrize(("n", "share", "out"), [(10, 0.3, 3), (10, 0.0, 0), (10, 1.0, 9), (2, 0.1, 1), (1, 0.5, 0)])
def test_something_always_remains_to_train_on(n, share, out):
    part = torch.arange(100, 100 + n)
    kept, held = hold_out(part, share, torch.Generator().manual_seed(0))
    assert len(held) == out
    assert torch.equal(torch.cat([kept, held]).sort().values, part)
    assert torch.equal(kept, kept.sort().values)
