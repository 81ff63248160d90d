"""Folders of tables in other formats, or of folders with files, and what is said of them."""

import numpy as np
import pytest

from fedkin.core.errors import FedkinError
from fedkin.data.reading.client_files import READERS
from fedkin.data.reading.folders_without_clients import only_folders_of_tables, only_other_tables
from fedkin.data.reading.sources import load


def test_folders_of_other_tables_are_refused_and_those_of_splits_are_not(tmp_path):
    for name in ("a.csv.zip", "b.csv.zip", "README.md"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(FedkinError) as error:
        load(str(tmp_path))
    assert str(error.value) == (
        f"'{tmp_path}' has no {', '.join(READERS)} files; one per client is needed, and it holds only README.md, "
        "a.csv.zip, b.csv.zip; unpack them."
    )
    (tmp_path / "a.csv.zip").rename(tmp_path / "train.csv.zip")
    (tmp_path / "arrays").mkdir()
    np.save(tmp_path / "arrays" / "a.npy", np.zeros(2))
    way = "save (each|it) as .npz, with an array x, and labels y\\.$"
    for source in (tmp_path / "arrays", tmp_path / "arrays" / "a.npy"):
        with pytest.raises(FedkinError, match=way):
            load(str(source))
    (tmp_path / "arrays" / "a.npy").unlink()
    (tmp_path / "arrays").rmdir()
    assert only_other_tables(tmp_path) is None
    (tmp_path / "train.csv.zip").rename(tmp_path / "a.csv")
    assert only_other_tables(tmp_path) is None


def test_a_folder_of_archives_is_refused_as_such(tmp_path):
    for name in ("north.zip", "south.zip"):
        (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(FedkinError, match=r"needed, and it holds only north\.zip, south\.zip; unpack them\.$"):
        load(str(tmp_path))


def test_folders_of_clients_tables_are_refused_with_the_way_they_are_read(tmp_path):
    for name in ("site=north", "site=south"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "2024-01.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FedkinError) as error:
        load(str(tmp_path))
    assert str(error.value) == (
        f"'{tmp_path}' has no file of a client itself, but folders with some: site=north, site=south; put one file per "
        f"client into one folder, such as '{tmp_path / 'north.csv'}'."
    )
    (tmp_path / "site=north" / "2024-01.csv").rename(tmp_path / "site=north" / "train-0.csv")
    assert only_folders_of_tables(str(tmp_path)) is None
