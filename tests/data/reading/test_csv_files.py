"""CSV files: what must read without an option, what needs one, and what is refused."""

import gzip
from pathlib import Path

import pytest

from fedkin.core.errors import FedkinError
from fedkin.core.table import Table
from fedkin.data.files import read_file
from fedkin.data.options import TableOptions
from fedkin.data.tables import MAX_COLUMNS


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


def test_a_column_that_can_be_read_in_two_ways_names_the_option_unless_another_tells(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    with pytest.raises(FedkinError, match=r"'a' .*set decimal = .\.. if .* else set decimal = .,."):
        table(path, "a;b\n1.234;x\n5.678;y\n")
    assert cells(table(path, "a;b\n1.234;x\n5.678;y\n", decimal=",")) == [[1234, "x"], [5678, "y"]]
    for content, sign, first in (
        ("a;b\n1.234;0.5\n5.678;2\n", ".", 1.234),
        ("a;b\n1.234;0,5\n5.678;2\n", ",", 1234),
        ("a,b\n1.234,x\n5.678,y\n", ".", 1.234),
    ):
        found = table(path, content)
        assert (found.decimal, cells(found)[0][0]) == (sign, first)


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
        ("a,a\n1,2\n", "more than one column 'a'.*rename"),
        ("Ward A,,\n,,\nx,v,w\n1,2,3\n", "Column 2 .* has no name"),
        ("a,b\nx,1,10,100\n", "more cells than its first line|line 2 has 4 cells"),
        ('a,b\n1,"x\n', "never closed"),
        (b"<!DOCTYPE html><html>", "web page"),
        ("a,b\n1,2\n".encode("utf-16-le"), 'set encoding = "utf-16-le"'),
    ],
)
def test_what_cannot_be_read_says_why(content: str | bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(FedkinError, match=f"(?s){said}"):
        table(tmp_path / "t.csv", content)


def test_encodings_and_archives(tmp_path: Path) -> None:
    text = "ort,n\nZ\u00fcrich,1\nBern,2\n"
    assert cells(table(tmp_path / "t.csv", text.encode("cp1252"), encoding="cp1252"))[0] == ["Z\u00fcrich", 1]
    assert cells(table(tmp_path / "t.csv.gz", gzip.compress(text.encode(), mtime=0)))[0] == ["Z\u00fcrich", 1]


def test_files_beyond_limits_are_refused_before_they_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = ",".join(f"c{at}" for at in range(MAX_COLUMNS + 1))
    with pytest.raises(FedkinError, match="columns"):
        table(tmp_path / "t.csv", f"{wide}\n{wide}\n")
    monkeypatch.setattr("fedkin.core.files.room", lambda: 10_000)
    with pytest.raises(FedkinError, match="memory"):
        table(tmp_path / "t.csv", "a,b\n" + "1,2\n" * 5_000)
