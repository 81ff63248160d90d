import datasets
import numpy as np
import pytest
import torch
from PIL import Image

from fedkin.core import FedkinError
from fedkin.data.scenarios.heterogeneous import Iid
from fedkin.data.scenarios.partition_scenario import clients_or_default, hold_out, load_labelled


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))


def write(folder, split, features=None, **columns):
    (folder / "data").mkdir(exist_ok=True)
    datasets.Dataset.from_dict(columns, features=features).to_parquet(
        folder / "data" / f"{split}-00000-of-00001.parquet"
    )
    return str(folder)


def test_data_without_a_test_split_have_none(tmp_path):
    assert load_labelled("iris").test is None
    assert load_labelled(write(tmp_path, "train", a=[1.0, 2.0], label=["u", "v"])).test is None
    np.savez(tmp_path / "a.npz", x=np.ones((3, 2)), y=[0, 1, 1])
    assert load_labelled(str(tmp_path / "a.npz")).test is None


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


def test_a_test_split_that_cannot_be_used_is_refused_and_not_left_out(tmp_path):
    write(tmp_path, "train", a=[1.0, 2.0], label=["u", "v"])
    with pytest.raises(FedkinError, match=r"Column 'a' of '.*' has 1 infinite values in 2 rows"):
        load_labelled(write(tmp_path, "test", a=[float("inf"), 2.0], label=["u", "v"]))


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


def test_data_without_labels_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FedkinError) as error:
        load_labelled(str(tmp_path / "a.csv"))
    assert str(error.value) == (
        "'a.csv' has no labels, but clients of this scenario need them; name their column with 'data.label'; or, "
        "to have each client's own rows, give a folder with one file per client, or the column that names each row's "
        "client, as by --set scenario.column=site."
    )


@pytest.mark.parametrize(("n", "share", "out"), [(10, 0.3, 3), (10, 0.0, 0), (10, 1.0, 9), (2, 0.1, 1), (1, 0.5, 0)])
def test_something_always_remains_to_train_on(n, share, out):
    part = torch.arange(100, 100 + n)
    kept, held = hold_out(part, share, torch.Generator().manual_seed(0))
    assert len(held) == out
    assert torch.equal(torch.cat([kept, held]).sort().values, part)
    assert torch.equal(kept, kept.sort().values)


def test_the_default_number_of_clients_depends_on_the_size_of_the_data():
    assert clients_or_default(None, 9_999, 80) == 20
    assert clients_or_default(None, 10_000, 80) == 80
    assert clients_or_default(7, 10_000, 80) == 7


def test_codes_of_missing_values_in_one_file_are_noted(tmp_path):
    rows = "".join(f"{9999 if row < 5 else row},{'ab'[row % 2]}\n" for row in range(40))
    (tmp_path / "all.csv").write_text(f"age,kind\n{rows}")
    scenario = Iid(str(tmp_path / "all.csv"), label="kind", clients=2)
    assert scenario.build(0).notes == (
        "Column 'age' holds 9999, far above all other values, in 5 rows of all.csv; if it is no true value but "
        "stands for a missing one, set na_values = {age = [9999]}.",
    )
