"""Tables from frames: kinds, named empty cells, labels, and options."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fedkin.core.errors import FedkinError
from fedkin.data.options import TableOptions
from fedkin.data.sources import read_file
from fedkin.data.tables import as_frame, encode_labels, frame_to_dataset, frame_to_table


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
        ("a\n1\n-1e300\n", None, "Column 'a' of '{}' has infinite numbers, or too large ones to add up, in 1 of 2"),
        ("label\n1\n", None, "'{}' is empty (1 rows, 0 columns of features)."),
        ("a,label\n1,u\n2,\n", "label", "Column 'label' of '{}' lacks 1 of 2 labels; leave these"),
        ("a,target\n1,0.5\n", "target", "Column 'target' of '{}' has labels that are fractions"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(tmp_path, text, label, said):
    path = write(tmp_path / "t.csv", text)
    with pytest.raises(FedkinError) as error:
        read_file(path, label)
    assert str(error.value).startswith(said.format(path))


def test_a_table_without_rows_is_refused_with_labels_too() -> None:
    with pytest.raises(FedkinError, match=r"^It is empty \(0 rows, 1 columns of features\)\.$"):
        frame_to_dataset(pd.DataFrame({"a": [1.0], "label": ["x"]})[:0], "it", "It", "label")


def test_the_names_of_rows_that_pandas_writes_twice_are_two_columns(tmp_path: Path) -> None:
    pd.DataFrame({"a": range(9)}).reset_index().to_csv(tmp_path / "t.csv")
    assert read_file(tmp_path / "t.csv", "none").features == ["Unnamed: 0", "index", "a"]


def empties(frame: pd.DataFrame, **options: object) -> dict[str, list[int]]:
    """The rows of each column's empty cells."""
    table = frame_to_dataset(frame, "it", "It", "none", options=TableOptions(**options)).table  # type: ignore[arg-type]
    return {name: np.flatnonzero(table.of(name).isnan().numpy()).tolist() for name in table.names}


@pytest.mark.parametrize("cell", [[1], {1}, {"a": 1}, np.zeros(2)])
def test_cells_that_are_no_values_are_refused_beside_named_empty_ones(cell: object) -> None:
    with pytest.raises(FedkinError, match="'b' of It holds lists or other objects"):
        empties(pd.DataFrame({"a": [1, -9], "b": pd.Series([cell, cell], dtype=object)}), na_values=[-9])


def test_numbers_and_texts_are_emptied_in_every_column() -> None:
    frame = pd.DataFrame(
        {"a": [1, -9, 3, 4], "b": [0.5, 2.0, -9.0, 1.0], "c": ["x", "unknown", "y", " unknown "], "d": [9, 8, 7, 6]}
    )
    assert empties(frame, na_values=[-9, "unknown"]) == {"a": [1], "b": [2], "c": [1, 3], "d": []}
    assert frame.a.tolist() == [1, -9, 3, 4]  # not modified


@pytest.mark.parametrize(
    ("values", "indices", "classes"),
    [
        ([10, 9, 10], [1, 0, 1], ["9", "10"]),
        ([2.0, 1.0], [1, 0], ["1", "2"]),
        (np.array([True, False]), [1, 0], ["False", "True"]),
        (np.array(["b", "a"], dtype=object), [1, 0], ["a", "b"]),
    ],
)
def test_labels_of_any_plain_type_become_indices(values, indices, classes):
    y, names = encode_labels(values, "It")
    assert y.tolist() == indices
    assert str(y.dtype) == "torch.int64"
    assert names == classes


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"drop": None}, "drop has None; it should have"),
        ({"na_values": {"a": {"b": 1}}}, "na_values has {'b': 1}; it should have"),
        ({"ordinal": {"a": ["x", "x"]}}, "ordinal['a'] is ['x', 'x']; it should have two levels or more, each once."),
    ],
)
def test_what_cannot_be_meant_is_refused(given, sentence):
    with pytest.raises(FedkinError) as error:
        TableOptions(**given)
    assert str(error.value).startswith(sentence)


def frame_of(library: str) -> Any:
    """A frame with a number, a text, a truth value, a date and an empty cell of another library."""
    cells = {"a": [1.5, None, 3.0], "k": ["x", "y", None], "t": [True, False, True]}
    days = [datetime.date(2024, 2, 29), None, datetime.date(1970, 1, 2)]
    module = pytest.importorskip(library)
    return (module.table if library == "pyarrow" else module.DataFrame)({**cells, "d": days})


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_frames_of_other_libraries_are_tables(library: str) -> None:
    frame = as_frame(frame_of(library))
    assert frame is not None
    table = frame_to_table(frame, "It")
    assert [column.kind for column in table.columns] == ["number", "category", "boolean", "date"]
    values = [[1.5, 0, 1, 19782], [-1, 1, 0, -1], [3, -1, 1, 1]]
    assert table.values.nan_to_num(-1).tolist() == values
