"""Clients of one array from files."""

import numpy as np
import pandas as pd
import pytest

from fedkin.core import FedkinError
from fedkin.data.client_arrays import convert_parquet, read_client_array


def table(owners: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"a": range(len(owners)), "site": owners, "b": [0.5] * len(owners)})


def test_a_table_of_parquet_becomes_clients_that_are_mapped_from_a_file(tmp_path):
    table(["x", "x", "y", "z", "z"]).to_parquet(tmp_path / "t.parquet", row_group_size=2)
    clients = read_client_array(*convert_parquet(tmp_path / "t.parquet", "site", tmp_path / "out"))
    assert clients.sizes.tolist() == [2, 1, 2]
    assert clients[2].x.tolist() == [[3.0, 0.5], [4.0, 0.5]]
    before = (tmp_path / "out" / "rows.npy").read_bytes()
    clients[0].x.zero_()
    assert (tmp_path / "out" / "rows.npy").read_bytes() == before


@pytest.mark.parametrize("fault", ["apart", "texts", "missing", "column", "no file"])
def test_other_tables_are_refused(tmp_path, fault):
    frame = table(["x", "y", "x"] if fault == "apart" else ["x", "x", "y"])
    frame["a"] = {"texts": ["p", "q", "r"], "missing": [1.0, np.nan, 2.0]}.get(fault, frame["a"])
    frame.to_parquet(tmp_path / "t.parquet")
    path = tmp_path / ("none" if fault == "no file" else "t.parquet")
    with pytest.raises(FedkinError):
        convert_parquet(path, "client" if fault == "column" else "site", tmp_path)


def test_rows_that_are_no_float32_or_not_finite_are_refused(tmp_path):
    for rows in (np.zeros((3, 2)), np.full((3, 2), np.inf, np.float32), np.zeros(3, np.float32)):
        np.save(tmp_path / "rows.npy", rows)
        with pytest.raises(FedkinError):
            read_client_array(tmp_path / "rows.npy", [0, 3])
