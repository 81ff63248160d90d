"""Files: what must read without an option, what needs one, and what is refused, damaged ones among them."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import Workbook

from fedkin.core.client import Table
from fedkin.core.errors import FedkinError
from fedkin.data.options import TableOptions
from fedkin.data.sources import load, read_file, read_sheet
from fedkin.data.tables import Dataset
from fuzzing import damaged_bytes, fuzzed


def table(path: Path, content: str | bytes, **options: object) -> Table:
    """The table in a file with this content."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = read_file(path, options=TableOptions(**options)).table  # type: ignore[arg-type]
    assert found is not None
    return found


def cells(found: Table) -> list[list[object]]:
    """A table's rows, with categories as texts and None for empty cells."""

    def cell(at: int, value: float) -> object:
        column = found.columns[at]
        return None if value != value else column.categories[int(value)] if column.is_coded else value

    return [[cell(at, value) for at, value in enumerate(row)] for row in found.values.tolist()]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xef\xbb\xbfa,b\n1,x\n2,y\n", [[1, "x"], [2, "y"]]),
        ("gr\u00f6\u00dfe,b\n1,\u00e4\n2,y\n".encode("utf-16"), [[1, "\u00e4"], [2, "y"]]),
        ("a;b\n1;x\n2;y\n", [[1, "x"], [2, "y"]]),
        ("a\tb\n1\tx\n2\ty\n", [[1, "x"], [2, "y"]]),
        ("a;b\n1,5;1.234,5\n2;10,25\n", [[1.5, 1234.5], [2, 10.25]]),
        ("a,b\nNA,x\nn/a,-\n,y\n-,\n4,NULL\n", [[None, "x"], [None, None], [None, "y"], [None, None], [4, None]]),
        ("a,b\n2024-02-29,31.12.2024\n1970-01-02,02.01.1970\n", [[19782, 20088], [1, 1]]),
        ('a,b\n1,"two\nlines"\n2,"a ""b"", c"\n', [[1, "two\nlines"], [2, 'a "b", c']]),
        ("a,b\n58%,0.5 %\n7 %,100 %\n", [[0.58, 0.005], [0.07, 1]]),
        ("a;b;c\n1 234;1'234;1\u00a0234,5\n567;8;9\n", [[1234, 1234, 1234.5], [567, 8, 9]]),
    ],
    ids=["mark", "utf-16", "semicolon", "tab", "comma", "empty", "dates", "quoted", "percent", "thousands"],
)
def test_what_files_of_people_have_reads_without_an_option(
    content: str | bytes, expected: list[list[object]], tmp_path: Path
) -> None:
    assert cells(table(tmp_path / "t.csv", content)) == [[pytest.approx(cell) for cell in row] for row in expected]


def test_a_column_that_can_be_read_in_two_ways_names_the_option_unless_commas_separate_cells(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    with pytest.raises(FedkinError, match=r"'a' .*set decimal = .\.. if .* else set decimal = .,."):
        table(path, "a;b\n1.234;0.5\n5.678;2\n")
    assert cells(table(path, "a;b\n1.234;x\n5.678;y\n", decimal=",")) == [[1234, "x"], [5678, "y"]]
    for content, first in (("a,b\n1.234,x\n5.678,y\n", 1.234), ("a;b\n1.234,5;x\n5.678;y\n", 1234.5)):
        assert cells(table(path, content))[0][0] == first


def test_codes_and_long_numbers_stay_texts_and_all_other_numbers_are_numbers(tmp_path: Path) -> None:
    rows = "007;90071992547409931;01.02.2024;0.5;NA;NA\n;90071992547409937;31.12.2024;-;5;\n010;;01.01.2024;1e3;;x\n"
    found = table(tmp_path / "t.csv", "code;far;day;n;whole;w\n" + rows)
    kinds = [one.kind for one in found.columns]
    assert kinds == ["category", "category", "date", "number", "number", "category"]
    assert found.columns[0].categories == ("007", "010")
    assert cells(table(tmp_path / "t.csv", "a,b\n1,2\nNA,-\n,\n3,4\n")) == [[1, 2], [None, None], [3, 4]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,a\n1,2\n", "2 columns of the name 'a'"),
        ("Ward A,,\n,,\nx,v,w\n1,2,3\n", "2 columns of the name ''"),
        ("a,b\nx,1,10,100\n", "line 2, saw 4"),
        ('a,b\n1,"x\n', "EOF inside string.*quotation mark"),
        ("a,b\n1,2\n".encode("utf-16-le"), "no text in UTF-8.*encoding = "),
    ],
)
def test_what_cannot_be_read_says_why(content: str | bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(FedkinError, match=f"(?s){said}"):
        table(tmp_path / "t.csv", content)


def test_encodings_and_archives(tmp_path: Path) -> None:
    text = "ort,n\nZ\u00fcrich,1\nBern,2\n"
    assert cells(table(tmp_path / "t.csv", text.encode("cp1252"), encoding="cp1252"))[0] == ["Z\u00fcrich", 1]
    assert cells(table(tmp_path / "t.csv.gz", gzip.compress(text.encode(), mtime=0)))[0] == ["Z\u00fcrich", 1]


def saved(path: Path, rows: list[list[object]]) -> Path:
    """Save a workbook of one sheet."""
    book = Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


ROWS = [
    ["age", "code", "seen", "smokes", "part", "note", "rate"],
    [31, "007", dt.datetime(2024, 3, 1), True, 0.5, 'a, "b"', "#DIV/0!"],
    [42.5, "012", dt.datetime(2024, 3, 2, 13, 45, 2), False, 1, None, 1],
    [50, 7, dt.date(2024, 3, 4), None, 0.125, "ü", 2],
]


def test_cells_are_what_the_workbook_has(tmp_path):
    """Codes with zeros in front stay texts, whatever stands around the table."""
    found = read_file(saved(tmp_path / "t.xlsx", [[], *([None, *row] for row in ROWS)])).table
    assert {one.name: one.kind for one in found.columns} == {
        "age": "number", "code": "category", "seen": "date", "smokes": "boolean", "part": "number",
        "note": "category", "rate": "number",
    }  # fmt: skip
    assert found.of("seen")[1] == pytest.approx(19784 + (13 * 3600 + 45 * 60 + 2) / 86_400)
    assert found.of("age").tolist() == [31, 42.5, 50]
    assert found.columns[1].categories == ("007", "7", "012")


@pytest.mark.parametrize("name", ["t.xlsb", "t.xlsx"])
def test_binary_workbooks_are_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        archive.writestr("xl/workbook.bin", b"")
    with pytest.raises(FedkinError, match=r"\.xlsx"):
        load(str(tmp_path / name))


@pytest.mark.parametrize("cut", [0.3, 0.9])
def test_damaged_workbooks_are_one_sentence(tmp_path, cut):
    whole = saved(tmp_path / "t.xlsx", ROWS).read_bytes()
    (tmp_path / "t.xlsx").write_bytes(whole[: int(len(whole) * cut)])
    with pytest.raises(FedkinError, match=r"^It cannot be read as \.xlsx"):
        read_sheet(tmp_path / "t.xlsx", "It")


TABLES = [
    b"a,b,class\n1,2.5,x\n3,,y\n-4,1e3,x\n",
    b'\xef\xbb\xbfa;b;"c d"\r\n1,5;x;2020-01-01\r\n2,5;"y;z";2021-02-03\r\n',
    "größe\tb\n1\ttrue\n2\tfalse\n".encode("utf-16"),
    b"sep=|\na|b\n007|x\n010|y\n",
    b"id,when,label\n1,2020-01-01 12:00,0\n2,2020-13-01,1\n3,,1\n",
    b",a,b,,\n0,1,2,,\n1,3,4,,\n,,,,\n",
]


def array_file() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, x=np.arange(12.0).reshape(4, 3), y=np.array(["a", "b", "a", "b"]))
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


@pytest.mark.parametrize(("name", "make"), [("t.npz", array_file), ("t.parquet", parquet_file)])
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
        names = [*data.table.names, *data.table.texts]
        assert len(set(names)) == len(names) == data.table.values.shape[1] + len(data.table.texts) > 0
    else:
        assert torch.isfinite(data.x).all()
    if data.y is not None:
        assert data.y.shape == (len(data.x),)
        assert int(data.y.min()) >= 0
        assert int(data.y.max()) < len(data.classes)
