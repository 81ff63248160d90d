"""Clients of one array from files."""

import numpy as np
import pytest

from fedkin.core import FedkinError
from fedkin.data.sources import read_client_array


def test_clients_are_mapped_from_a_file_that_nothing_changes(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, np.arange(10, dtype=np.float32).reshape(5, 2))
    clients = read_client_array(path, [0, 2, 3, 5])
    assert clients.sizes.tolist() == [2, 1, 2]
    assert clients[2].x.tolist() == [[6, 7], [8, 9]]
    before = path.read_bytes()
    clients[0].x.zero_()
    assert path.read_bytes() == before


@pytest.mark.parametrize("rows", [np.zeros((3, 2)), np.full((3, 2), np.inf, np.float32), np.zeros(3, np.float32), None])
def test_rows_that_are_no_float32_or_not_finite_are_refused(tmp_path, rows):
    if rows is not None:
        np.save(tmp_path / "rows.npy", rows)
    with pytest.raises(FedkinError):
        read_client_array(tmp_path / "rows.npy", [0, 3])
