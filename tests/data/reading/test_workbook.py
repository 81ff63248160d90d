"""Workbooks: their sheets are read as the CSV that a spreadsheet would save."""

import csv
import datetime as dt
import io
import subprocess
import sys
import zipfile

import pytest

from fedkin.core import errors
from fedkin.core.errors import FedkinError
from fedkin.data.reading.client_files import load_clients
from fedkin.data.reading.sources import load
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.reading.tables import read_table
from fedkin.data.reading.workbook import WORKBOOKS, read_sheet
from workbooks import saved

ROWS = [
    ["age", "code", "seen", "from", "smokes", "part", "note", "rate"],
    [31, "007", dt.datetime(2024, 3, 1), dt.time(7, 30), True, 0.5, 'a, "b"', "#DIV/0!"],
    [42.5, "012", dt.datetime(2024, 3, 2, 13, 45, 2), None, False, 1, None, 1],
    [50, 7, dt.date(2024, 3, 4), dt.time(8, 0), None, 0.125, "ü", 2],
]


def open_document(path, rows):
    """A sheet of OpenDocument, of texts and numbers."""
    kinds = {True: 'string"', False: 'float" office:value="{}"'}
    cells = [[(kinds[isinstance(cell, str)].format(cell), cell) for cell in row] for row in rows]
    body = "".join(
        "<table:table-row>"
        + "".join(
            f'<table:table-cell office:value-type="{kind}><text:p>{c}</text:p></table:table-cell>' for kind, c in row
        )
        + "</table:table-row>"
        for row in cells
    )
    spaces = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr(
            "META-INF/manifest.xml",
            '<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>',
        )
        archive.writestr(
            "content.xml",
            f"<office:document-content{spaces}><office:body><office:spreadsheet><table:table table:name='S'>{body}"
            "</table:table></office:spreadsheet></office:body></office:document-content>",
        )
    return path


def test_cells_become_what_a_spreadsheet_saves(tmp_path):
    sheet = read_sheet(saved(tmp_path / "t.xlsx", S=[[], *([None, *row] for row in ROWS)]), "It")
    assert list(csv.reader(io.StringIO(sheet.text))) == [
        ROWS[0],
        ["31", "007", "2024-03-01", "07:30:00", "TRUE", "0.5", 'a, "b"', ""],
        ["42.5", "012", "2024-03-02 13:45:02", "", "FALSE", "1", "", "1"],
        ["50", "7", "2024-03-04", "08:00:00", "", "0.125", "ü", "2"],
    ]
    assert sheet.numbers == {0, 2, 3, 4, 5, 7}


def test_long_times_and_large_numbers_are_written_in_full(tmp_path):
    rows = [
        ["a", "b", "c"],
        [dt.timedelta(hours=27, minutes=5), 2.0**60, 1e-7],
        [dt.timedelta(hours=1), 12345678, -3.25],
    ]
    cells = list(csv.reader(io.StringIO(read_sheet(saved(tmp_path / "t.xlsx", S=rows), "It", decimal=",").text)))
    assert cells[1:] == [["27:05:00", "1,152921504606847e+18", "1e-07"], ["1:00:00", "12345678", "-3,25"]]


def test_a_workbook_is_read_as_its_csv(tmp_path):
    """Codes with zeros in front stay texts, and dates are dates, in both."""
    book = saved(tmp_path / "t.xlsx", S=ROWS)
    text = tmp_path / "t.csv"
    text.write_text(read_sheet(book, "It").text)
    of_book, of_text = (read_table(path).table for path in (book, text))
    assert of_book.columns == of_text.columns
    assert {one.name: one.kind for one in of_book.columns} == {
        "age": "number", "code": "category", "seen": "date", "from": "number", "smokes": "boolean", "part": "number",
        "note": "category", "rate": "number",
    }  # fmt: skip
    assert of_book.values.nan_to_num(-1).tolist() == of_text.values.nan_to_num(-1).tolist()


@pytest.mark.parametrize("decimal", [".", ","])
def test_numbers_do_not_depend_on_the_decimal_mark(tmp_path, decimal):
    """Of files with decimal commas, and of thousands, only texts can be taken."""
    rows = [["x", "v"], *([step + 0.125, 100 + step] for step in range(20)), [200, 300]]
    read = load(str(saved(tmp_path / "t.xlsx", S=rows)), options=TableOptions(decimal=decimal))
    assert read.x.tolist() == [list(map(float, row)) for row in rows[1:]]
    assert all(not column.written for column in read.table.columns)


def test_texts_with_decimal_commas_are_numbers_if_asked(tmp_path):
    book = saved(tmp_path / "t.xlsx", S=[["x", "y"], ["1,5", 0.5], ["2,25", 3]])
    with pytest.raises(FedkinError, match="set decimal = ','"):
        load(str(book))
    assert load(str(book), options=TableOptions(decimal=",")).x.tolist() == [[1.5, 0.5], [2.25, 3]]


def test_the_only_sheet_with_cells_is_taken(tmp_path):
    book = saved(tmp_path / "t.xlsx", empty=[], S=[["x"], [1], [2]], hidden=[["v"], [3]])
    assert load(str(book)).table.names == ["x"]
    assert load(str(book), options=TableOptions(sheet="hidden")).table.names == ["v"]


def test_of_several_sheets_one_is_named(tmp_path):
    book = saved(tmp_path / "t.xlsx", patients=[["x"], [1], [2]], legend=[["v"], [3]])
    with pytest.raises(FedkinError) as error:
        load(str(book))
    assert str(error.value) == f"'{book}' has 2 sheets, 'patients', 'legend'; set sheet = 'patients' or another."
    assert load(str(book), options=TableOptions(sheet=["data", "legend"])).x.tolist() == [[3]]
    with pytest.raises(FedkinError) as error:
        load(str(book), options=TableOptions(sheet=["data", "rows"]))
    assert str(error.value) == f"'{book}' has no sheet 'data' or 'rows'; it has 'patients', 'legend'."


def test_a_workbook_without_cells_is_refused(tmp_path):
    with pytest.raises(FedkinError, match=r"^'.*t\.xlsx' has no sheet that holds anything\.$"):
        load(str(saved(tmp_path / "t.xlsx", S=[])))
    with pytest.raises(FedkinError, match=r"' is empty \(0 rows, 1 columns of features\)\.$"):
        load(str(saved(tmp_path / "t.xlsx", S=[["x"]])))


def test_lines_above_the_names_are_refused(tmp_path):
    book = saved(tmp_path / "t.xlsx", S=[["Ward A"], [], ["x", "v", "w"], [1, 2, 3], [3, 4, 5]])
    with pytest.raises(FedkinError, match=r"^The first line of '.*t\.xlsx' names 1 of 3 columns; it must"):
        load(str(book))


def test_open_documents_are_read(tmp_path):
    book = open_document(tmp_path / "t.ods", [["x", "code"], [1.5, "01"], [2, "02"]])
    read = load(str(book))
    assert read.table.names == ["x", "code"]
    assert read.x[:, 0].tolist() == [1.5, 2]


@pytest.mark.parametrize("ending", WORKBOOKS)
@pytest.mark.parametrize("content", [b"", b"x,y\n1,2\n", b"PK\x03\x04" + bytes(50), b"\xd0\xcf\x11\xe0" + bytes(600)])
def test_what_is_no_workbook_is_one_sentence(tmp_path, ending, content):
    (tmp_path / f"t{ending}").write_bytes(content)
    with pytest.raises(
        FedkinError, match=rf"^It cannot be read as \{ending} \(it is damaged, or no workbook\); open it"
    ):
        read_sheet(tmp_path / f"t{ending}", "It")


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.9, 0.99])
def test_damaged_workbooks_are_one_sentence(tmp_path, cut):
    whole = saved(tmp_path / "t.xlsx", S=ROWS).read_bytes()
    (tmp_path / "t.xlsx").write_bytes(whole[: int(len(whole) * cut)])
    with pytest.raises(FedkinError, match=r"^It cannot be read as \.xlsx"):
        read_sheet(tmp_path / "t.xlsx", "It")


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda _: None)
    with pytest.raises(FedkinError, match=r"pip install 'fedkin\[excel\]'"):
        load(str(saved(tmp_path / "t.xlsx", S=ROWS)))


def test_workbooks_are_clients_beside_other_files(tmp_path):
    """What Excel writes beside a workbook that is open is none."""
    saved(tmp_path / "north.xlsx", S=[["x", "y"], [1, "u"], [2, "v"]])
    (tmp_path / "south.csv").write_text("y,x\nv,3\nu,4\n")
    (tmp_path / "~$north.xlsx").write_bytes(b"\x05north")
    first, second = load_clients(tmp_path, label="y")
    assert (first.name, second.name) == ("north.xlsx", "south.csv")
    assert (first.y.tolist(), second.y.tolist()) == ([0, 1], [1, 0])


@pytest.mark.parametrize("ending", [".xlsx", ".ods"])
def test_a_cell_too_far_from_the_others_is_refused_before_it_ends_the_process(tmp_path, ending):
    path = tmp_path / f"far{ending}"
    whole = (
        saved(tmp_path / "a.xlsx", s=[["a", "b"], [1, 2]]) if ending == ".xlsx" else open_document(path, [["a"], [1]])
    )
    with zipfile.ZipFile(whole) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    path.unlink(missing_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            content = content.replace(
                b"</sheetData>", b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
            )
            content = content.replace(
                b"</table:table>",
                b'<table:table-row table:number-rows-repeated="1048576"><table:table-cell '
                b'table:number-columns-repeated="16384" office:value-type="float" office:value="1"/></table:table-row>'
                b"</table:table>",
            )
            archive.writestr(name, content)
    code = "import sys; from fedkin.data.reading.sources import load; load(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "fedkin.core.errors.FedkinError" in done.stderr
