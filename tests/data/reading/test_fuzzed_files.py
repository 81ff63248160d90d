"""Data files with damaged bytes: a data set, or one sentence."""

import io
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.errors import FedkinError
from fedkin.data.dataset import Dataset
from fedkin.data.sources import load
from fuzzing import damaged_bytes, fuzzed

TABLES = [
    b"a,b,class\n1,2.5,x\n3,,y\n-4,1e3,x\n",
    b'\xef\xbb\xbfa;b;"c d"\r\n1,5;x;2020-01-01\r\n2,5;"y;z";2021-02-03\r\n',
    "größe\tb\n1\ttrue\n2\tfalse\n".encode("utf-16"),
    b"sep=|\na|b\n007|x\n010|y\n",
    b"a b c\n1 2 3\n4 5 6\n",
    b"id,when,label\n1,2020-01-01 12:00,0\n2,2020-13-01,1\n3,,1\n",
    b",a,b,,\n0,1,2,,\n1,3,4,,\n,,,,\n",
]
ODD_CELLS = [
    "", " ", '"', '""', "'", "-", "0x10", "1_000", "1,5", "1.5", "1e308", "1e309", "-1e400", "9" * 400, "nan", "-inf",
    "true", "2020-02-30", "0001-01-01", "99999-01-01", "007", "+", "1e", "\x00", "\u2028", "ſ", "\u0660", "=1+1", "#",
    "1970-01-01T00:00:00+14:00", "null", "\ufeff", "\x85", "Unnamed: 0", "id", "x" * 5000,
]  # fmt: skip


def array_file() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, x=np.arange(12.0).reshape(4, 3), y=np.array(["a", "b", "a", "b"]))
    return stream.getvalue()


def packed_array_file() -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, x=np.arange(12.0).reshape(4, 3), y=np.arange(4))
    return stream.getvalue()


def parquet_file() -> bytes:
    stream = io.BytesIO()
    cells = {"a": [1.5, None, 3.0], "b": ["x", "y", None], "label": [0, 1, 0], "c": pd.to_datetime(["2020-01-01"] * 3)}
    pd.DataFrame(cells).to_parquet(stream)
    return stream.getvalue()


def test_damaged_csv_files_are_read_or_refused(tmp_path: Path) -> None:
    ends = Counter[bool]()

    @fuzzed(120, 4)
    @given(st.sampled_from(TABLES).flatmap(damaged_bytes).flatmap(lambda once: st.just(once) | damaged_bytes(once)))
    def check(content: bytes) -> None:
        ends[is_read(tmp_path / "t.csv", content)] += 1

    check()
    assert min(ends[True], ends[False]) > 20


def test_odd_cells_are_read_or_refused(tmp_path: Path) -> None:
    cells = st.sampled_from(ODD_CELLS) | st.text(max_size=4) | st.floats().map(str) | st.integers().map(str)
    ends = Counter[bool]()

    @fuzzed(80, 4)
    @given(
        st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1)),
        st.sampled_from(",;\t| "),
        st.booleans(),
        st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    )
    def check(rows: list[list[str]], separator: str, named: bool, code: str) -> None:
        header = [f"c{at}" for at in range(len(rows[0]))]
        lines = [separator.join(row) for row in ([header, *rows] if named else rows)]
        ends[is_read(tmp_path / "t.csv", "\n".join(lines).encode(code, "surrogatepass"))] += 1

    check()
    assert min(ends[True], ends[False]) > 5


@pytest.mark.parametrize(
    ("name", "make"), [("t.npz", array_file), ("t.npz", packed_array_file), ("t.parquet", parquet_file)]
)
def test_damaged_binary_files_are_read_or_refused(name: str, make, tmp_path: Path) -> None:
    ends = Counter[bool]()

    @fuzzed(40, 8)
    @given(damaged_bytes(make()))
    def check(content: bytes) -> None:
        ends[is_read(tmp_path / name, content)] += 1

    check()
    assert ends[False] > ends.total() / 4


def is_read(path: Path, content: bytes) -> bool:
    """Whether a file is read, rather than refused; what is read is sound."""
    path.write_bytes(content)
    try:
        data = load(str(path))
    except FedkinError as error:
        return _refused(error)
    _check(data)
    return True


def _refused(error: FedkinError) -> bool:
    assert str(error)
    return False


def _check(data: Dataset) -> None:
    assert len(data.x)
    assert not torch.isinf(data.x).any()
    if data.table is not None:
        assert len(set(data.table.names)) == len(data.table.names) == data.table.values.shape[1] > 0
    else:
        assert torch.isfinite(data.x).all()
    if data.y is not None:
        assert data.y.shape == (len(data.x),)
        assert int(data.y.min()) >= 0
        assert int(data.y.max()) < len(data.classes)
