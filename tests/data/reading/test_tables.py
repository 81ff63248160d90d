import time

import numpy as np
import pandas as pd
import pytest
import torch

from fedkin.core.errors import FedkinError
from fedkin.data.files import read_file
from fedkin.data.tables import frame_to_table


def write(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_numbers_booleans_and_labels(tmp_path, suffix):
    frame = pd.DataFrame({"a": [1, 2], "ok": [True, False], "class": ["dog", "cat"], "b": [0.5, 1e6]})
    path = tmp_path / f"t{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    dataset = read_file(path)
    assert dataset.name == path.name
    assert dataset.features == ["a", "ok", "b"]
    assert dataset.x is dataset.table.values
    assert dataset.x.dtype == torch.float64
    assert [one.kind for one in dataset.table.columns] == ["number", "boolean", "number"]
    assert dataset.x.tolist() == [[1.0, 1.0, 0.5], [2.0, 0.0, 1e6]]
    assert dataset.y.tolist() == [1, 0]
    assert dataset.classes == ["cat", "dog"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_column_of_clusters_is_no_feature_and_not_taken_for_labels(tmp_path, suffix):
    frame = pd.DataFrame({"a": [1, 2], "label": ["u", "v"], "target": [5, 4]})
    path = tmp_path / f"t{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    dataset = read_file(path, cluster="label")
    assert (dataset.features, dataset.classes) == (["a"], ["4", "5"])
    clusters, names = dataset.clusters
    assert (clusters.tolist(), names) == ([0, 1], ["u", "v"])
    assert read_file(path).clusters is None
    same = read_file(write(tmp_path / "same.csv", "a,y\n1,5\n2,4\n"), "y", "y")
    assert same.y.tolist() == same.clusters[0].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("text", "label", "said"),
    [
        ("a\n1\n-inf\n", None, "Column 'a' of '{}' has 1 infinite values in 2 rows; empty these"),
        ("label\n1\n", None, "'{}' is empty (1 rows, 0 columns of features)."),
        ("a,label\n1,u\n2,\n", "label", "Column 'label' of '{}' lacks 1 of 2 labels; leave out"),
        ("a,target\n1,0.5\n", "target", "Column 'target' of '{}' has labels that are fractions"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(tmp_path, text, label, said):
    path = write(tmp_path / "t.csv", text)
    with pytest.raises(FedkinError) as error:
        read_file(path, label)
    assert str(error.value).startswith(said.format(path))


@pytest.mark.parametrize("error", [KeyError("name"), TypeError("data type 'stn' not understood"), MemoryError()])
def test_whatever_arrow_says_of_a_damaged_schema_is_one_sentence(tmp_path, error, monkeypatch):
    def fail(path):
        raise error

    (tmp_path / "t.parquet").touch()
    monkeypatch.setattr(pd, "read_parquet", fail)
    with pytest.raises(FedkinError, match=r"t\.parquet' cannot be read as \.parquet \("):
        read_file(tmp_path / "t.parquet")


@pytest.mark.parametrize("level", ["average", "total x", "mw"])
def test_reading_takes_time_linear_in_rows(level):
    def seconds(rows):
        frame = pd.DataFrame({"size": np.arange(rows) % 97 / 8, "level": [level, "low"] * (rows // 2)})
        start = time.process_time()
        frame_to_table(frame, "It")
        return time.process_time() - start

    short, long = (min(seconds(rows) for _ in range(5)) for rows in (20_000, 80_000))
    assert long < 10 * short
