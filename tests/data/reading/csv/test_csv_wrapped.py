"""Cells in formulas, lines that are quoted as a whole, and apostrophes for quotation marks."""

import pytest

from fedkin.data.reading.csv.csv_files import read_csv
from fedkin.data.reading.csv.csv_wrapped import unwrapped

PLAIN = {"id": ["007", "008"], "v": [2.5, 3.0], "w": ["x, y", "z"]}


@pytest.mark.parametrize(
    "text",
    [
        'id,v,w\n007,2.5,"x, y"\n008,3,z\n',
        'id,v,w\n="007",="2.5","x, y"\n="008",="3",="z"\n',
        'id;v;w\r\n"=""007""";"=""2.5""";x, y\r\n"=""008""";3;z\r\n',
        '"id,v,w"\n"007,2.5,""x, y"""\n"008,3,z"\n',
        "'id','v','w'\n'007','2.5','x, y'\n'008','3','z'\n",
        "'id';'v';'w'\r\n'007';2.5;'x, y'\r\n'008';3;z\r\n",
    ],
)
def test_wrapped_cells_are_read_as_plain_ones(tmp_path, text):
    (tmp_path / "t.csv").write_bytes(text.encode())
    assert read_csv(tmp_path / "t.csv", "It").to_dict("list") == PLAIN


@pytest.mark.parametrize(
    "text",
    [
        'a,b\n"x=""1"", y",2\n',
        '"comment"\n"well, fine"\n"ill, tired"\n',
        '"a","b"\n"1","2"\n',
        '"a, b","c"\n"1, 2","3"\n',
        "'a,b\n1,2\n",
        "'tis,b\nx,2\n",
        "",
        "'",
        '"a"',
    ],
)
def test_other_texts_stay_as_they_are(text):
    assert unwrapped(text) == text
