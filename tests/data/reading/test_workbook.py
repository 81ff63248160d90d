"""Workbooks: their cells are read as they are."""

import datetime as dt
import subprocess
import sys
import zipfile

import pytest

from fedkin.core.errors import FedkinError
from fedkin.data.files import read_file, read_sheet
from fedkin.data.sources import load
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


def test_cells_are_what_the_workbook_has(tmp_path):
    """Codes with zeros in front stay texts, whatever stands around the table."""
    found = read_file(saved(tmp_path / "t.xlsx", S=[[], *([None, *row] for row in ROWS)])).table
    assert {one.name: one.kind for one in found.columns} == {
        "age": "number", "code": "category", "seen": "date", "from": "number", "smokes": "boolean", "part": "number",
        "note": "category", "rate": "number",
    }  # fmt: skip
    assert found.of("from")[[0, 2]].tolist() == [7.5, 8]
    assert found.of("seen")[1] == pytest.approx(19784 + (13 * 3600 + 45 * 60 + 2) / 86_400)
    assert found.of("age").tolist() == [31, 42.5, 50]
    assert found.columns[1].categories == ("007", "7", "012")


@pytest.mark.parametrize("name", ["t.xlsb", "t.xlsx"])
def test_binary_workbooks_are_refused_since_a_far_cell_would_end_the_process(tmp_path, name):
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        archive.writestr("xl/workbook.bin", b"")
    with pytest.raises(FedkinError, match="save"):
        load(str(tmp_path / name))


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.9, 0.99])
def test_damaged_workbooks_are_one_sentence(tmp_path, cut):
    whole = saved(tmp_path / "t.xlsx", S=ROWS).read_bytes()
    (tmp_path / "t.xlsx").write_bytes(whole[: int(len(whole) * cut)])
    with pytest.raises(FedkinError, match=r"^It cannot be read as \.xlsx"):
        read_sheet(tmp_path / "t.xlsx", "It")


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
    code = "import sys; from fedkin.data.sources import load; load(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "fedkin.core.errors.FedkinError" in done.stderr
