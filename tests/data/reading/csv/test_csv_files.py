import pandas as pd
import pytest
import torch

from fedkin.core.errors import FedkinError
from fedkin.data.reading.csv.csv_files import read_csv
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.reading.tables import read_table


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_separators_byte_order_marks_and_line_ends(tmp_path, separator, encoding, end):
    rows = [["größe", "b b", "c"], ["1", "x", "2.5"], ["-3", '"y, z; w\t| v"', "4"]]
    path = write(tmp_path / "t.csv", end.join(separator.join(row) for row in rows) + end, encoding)
    frame = read_csv(path, "It")
    assert list(frame.columns) == ["größe", "b b", "c"]
    assert frame["größe"].tolist() == [1, -3]
    assert frame["b b"].tolist() == ["x", "y, z; w\t| v"]
    assert frame["c"].tolist() == [2.5, 4]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a;note\n1;x, y\n2;u\n3;p, q, r\n", ["a", "note"]),
        ('a,"b;c;d"\n1,2\n', ["a", "b;c;d"]),
        ("a\n1\n2\n", ["a"]),
        ("a;b\n1,5;2,5\n", ["a", "b"]),
        ('"line\nbreak",b\n1,"2\n3"\n', ["line\nbreak", "b"]),
        ("a|b\n1|x,y,z\n", ["a", "b"]),
    ],
)
def test_the_separator_is_the_one_by_which_rows_fit_the_header(tmp_path, text, columns):
    assert list(read_csv(write(tmp_path / "t.csv", text), "It").columns) == columns


def test_very_long_cells_are_read(tmp_path):
    assert read_csv(write(tmp_path / "t.csv", f"a,b\n1,{'x' * 200_000}\n"), "It").shape == (1, 2)
    assert read_csv(write(tmp_path / "t.csv", f"{'a' * 300_000},b\n1,2\n"), "It").shape == (1, 2)


@pytest.mark.parametrize(
    "word",
    ["?", "-", ".", "–", "NA", "n/a", "N/A", "null", "NULL", "nan", "NaN", "#N/A", "#NULL!", "#DIV/0!", "\\N", "None"],
)
def test_words_of_empty_cells(tmp_path, word):
    read = read_table(write(tmp_path / "t.csv", f"a,b,c\n1,x,{word}\n{word},{word},{word}\n3,y,{word}\n"))
    assert [one.kind for one in read.table.columns] == ["number", "category", "number"]
    assert read.x.isnan().tolist() == [[False, False, True], [True, True, True], [False, False, True]]


def test_what_spreadsheets_leave_behind_is_no_data(tmp_path):
    clean = read_csv(write(tmp_path / "t.csv", "a;b\n1;x\n;y\n3;\n"), "It")
    for text in (
        "a;b\n1;x\n;\n;y\n  ; \n3;\n;\n;\n",
        "a;b;;\n1;x;;\n;y;;\n3;;;\n",
        ";a;b\n7;1;x\n8;;y\n9;3;\n",
        "sep=;\na;b\n1;x\n;y\n3;\n",
        '"sep=;"\r\na;b\r\n1;x\r\n;y\r\n3;\r\n',
    ):
        assert read_csv(write(tmp_path / "t.csv", text), "It").equals(clean), text
    assert len(read_csv(write(tmp_path / "t.csv", "a,b\nNA,?\n1,2\n"), "It")) == 2
    assert len(read_csv(write(tmp_path / "t.csv", "a\n1\nNA\n"), "It")) == 2


def test_columns_apart_by_blanks(tmp_path):
    read = read_csv(write(tmp_path / "t.csv", "a  b c\n1 2.5\tx\n3 4 y\n"), "It")
    assert read.to_dict("list") == {"a": [1, 3], "b": [2.5, 4.0], "c": ["x", "y"]}
    assert read_csv(write(tmp_path / "t.csv", "first name\nanna bell\nmax frey\n"), "It").columns == ["first name"]


def test_why_a_file_cannot_be_read(tmp_path):
    for text, reason in (
        ("a,b\n1,2\n1,2,3,4\n1,2\n", "line 3 has 4 cells, but the first line names 2 columns"),
        (
            "Station X\nDate\na,b,c\n1,2,3\n4,5,6\n",
            "line 3 has 3 cells, but the first line names 1 column; if the names are in line 3, delete the lines above",
        ),
        (
            "Station,X12\nDate,2024-05-01\na,b,c,d\n1,2,3,4\n5,6,7,8\n",
            "line 3 has 4 cells, but the first line names 2 columns; if the names are in line 3, delete the lines "
            "above",
        ),
        ('a,b\n1,"x\n2,y\n', "a quotation mark in row 1 is never closed"),
    ):
        with pytest.raises(FedkinError) as error:
            read_csv(write(tmp_path / "t.csv", text), "It")
        assert str(error.value) == f"It cannot be read as .csv ({reason})."


def test_names_of_rows_that_r_writes_have_no_name(tmp_path):
    for text in ('"a" "b"\n"1" 2.5 "New York"\n"2" 3 "Ulm"\n', "a,b\nP1,2.5,x\nP2,3,y\n"):
        with pytest.raises(FedkinError, match=r"^Rows of It hold one cell more .* names of rows \(in R row.names = FA"):
            read_csv(write(tmp_path / "t.csv", text), "It")
    with pytest.raises(FedkinError, match=r"^Rows of It hold more cells .* \(a title above them\? delete it\)"):
        read_csv(write(tmp_path / "t.csv", "a,b\n1,2.5,x\n1,3,y\n"), "It")
    quoted = read_csv(write(tmp_path / "t.csv", '"a" "b"\n2.5 "New York"\n3 "Ulm"\n'), "It")
    assert quoted.to_dict("list") == {"a": [2.5, 3.0], "b": ["New York", "Ulm"]}


def test_bytes_of_0_are_refused_and_the_end_of_dos_files_is_no_row(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,2\n" + b"\0" * 512)
    with pytest.raises(FedkinError, match=r"^It has bytes of 0 in line 3 \(a damaged copy, or UTF-16 without a byte"):
        read_csv(tmp_path / "t.csv", "It")
    (tmp_path / "t.csv").write_bytes("a,ü\n1,2\n".encode("utf-16-le"))
    with pytest.raises(FedkinError, match=r"^It has bytes of 0 in line 1"):
        read_csv(tmp_path / "t.csv", "It")
    assert len(read_csv(tmp_path / "t.csv", "It", encoding="utf-16-le")) == 1
    assert len(read_csv(write(tmp_path / "t.csv", "a,b\n1,2\n\x1a"), "It")) == 1


def test_numbers_with_leading_zeros_are_codes(tmp_path):
    read = read_table(write(tmp_path / "t.csv", 'zip,id,a,b,z\n01234,"007",0.5,10,0\n99999,123,1,20,?\n'))
    assert [(one.name, one.categories) for one in read.table.columns if one.kind == "category"] == [
        ("zip", ("01234", "99999")),
        ("id", ("007", "123")),
    ]
    assert read.table.of("z").nan_to_num(-1).tolist() == [0, -1]


def test_names_that_look_like_fractions_are_as_written(tmp_path):
    path = write(tmp_path / "t.csv", "v,w,x,u,z\n3.0,2.10,1.0,1.0,TRUE\n3.0, 2.9,,2.5,TRUE\n3.0,3.0,2.0,?,\n")
    read = read_table(path, options=TableOptions(categorical=["v", "w", "x", "u", "z"])).table
    assert [column.categories for column in read.columns] == [
        ("3.0",),
        ("2.10", "2.9", "3.0"),
        ("1", "2"),
        ("1.0", "2.5"),
        ("TRUE",),
    ]
    assert read.of("u").isnan().tolist() == read.of("z").isnan().tolist() == [False, False, True]
    assert [column.kind for column in read_table(path).table.columns] == ["number"] * 4 + ["boolean"]


def test_what_is_written_is_read(tmp_path):
    frame = pd.DataFrame(
        {
            "sex": ["m", "f", "m"],
            "seen": ["2024-01-01", "2024-01-02", None],
            "dose": [1, None, 3],
            "well": [True, False, True],
            "empty": [None] * 3,
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    one, other = read_table(tmp_path / "t.csv").table, read_table(tmp_path / "t.parquet").table
    assert one.columns == other.columns
    assert torch.equal(one.values.nan_to_num(-1), other.values.nan_to_num(-1))
    assert [column.kind for column in one.columns] == ["category", "date", "number", "boolean", "number"]


@pytest.mark.parametrize(
    ("words", "encoding"), [("złoty,5", "cp1250"), ("Köln,m³ £5 ¿Qué?", "cp1252"), ("größe,4 m³/h", "cp1252")]
)
def test_the_encoding_of_polish_files_is_guessed(tmp_path, words, encoding):
    path = write(tmp_path / "t.csv", f"a,b\n{words}\n", encoding)
    with pytest.raises(FedkinError, match=f"set encoding = '{encoding}' or what it is in"):
        read_csv(path, "It")


def test_other_encodings_are_refused_with_the_line(tmp_path):
    path = write(tmp_path / "t.csv", "a,b\n1,x\n2,größe\n", "cp1252")
    with pytest.raises(FedkinError) as error:
        read_csv(path, "It")
    assert str(error.value) == (
        "It cannot be read as .csv (line 3 is no UTF-8); set encoding = 'cp1252' or what it is in, or save it as "
        "UTF-8, in Excel 'CSV UTF-8'."
    )
    with pytest.raises(FedkinError) as error:
        read_csv(path, "It", encoding="ascii")
    assert str(error.value) == (
        "It cannot be read as .csv (line 3 is no ascii); nor is the file UTF-8; another encoding fits it."
    )


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "cp850", "mac-roman", "utf-16-le", "utf-16-be", "utf-8"])
def test_a_named_encoding_is_that_of_files_which_are_not_utf_8(tmp_path, encoding):
    for text, known in (("a,b\n1,x\n2,größe\n", ["größe", "x"]), ("a,b\n1,x\n2,y\n", ["x", "y"])):
        for written in {encoding, "utf-8", "utf-8-sig", "utf-16"} - ({"utf-8"} if "utf-16-" in encoding else set()):
            path = write(tmp_path / "t.csv", text, written)
            table = read_table(path, options=TableOptions(encoding=encoding)).table
            assert list(table.columns[1].categories) == known, written


def test_bytes_that_no_encoding_of_text_has_are_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1,x\n2,\x81\xff\n")
    with pytest.raises(
        FedkinError, match=r"^It cannot be read as \.csv \(line 3 is no cp1252\); nor is the file UTF-8"
    ):
        read_csv(path, "It", encoding="cp1252")


def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(FedkinError, match=r"^It cannot be read as \.csv \(Is a directory\)\.$"):
        read_csv(tmp_path / "d.csv", "It")


@pytest.mark.parametrize("text", ["\r,a,b,,\n1,2,3,,\n", "\r;#;1/0;4\n\r;4; ;"])
def test_a_first_line_that_ends_in_two_ways_is_refused(tmp_path, text):
    with pytest.raises(FedkinError, match=r"first line names \d columns, but its rows have \d"):
        read_csv(write(tmp_path / "t.csv", text), "It")


def test_empty_cells_beyond_the_header_are_no_data(tmp_path):
    frame = read_csv(write(tmp_path / "t.csv", "a,b,,\n1,3,,,\n1,2,,\n,,,\n"), "It")
    assert frame.columns.tolist() == ["a", "b"]
    assert frame["b"].tolist() == [3, 2]


def test_a_row_of_units_is_refused_in_one_sentence(tmp_path):
    units = "kind,length,mass,seen\n,mm,g,\na,1.5,3,yes\nb,2.5,4,no\nb,,5,\n"
    with pytest.raises(FedkinError, match=r"^Row 1 of It holds texts such as 'mm' above numbers"):
        read_csv(write(tmp_path / "t.csv", units), "It")
    read_csv(write(tmp_path / "t.csv", units.replace(",mm,g,", "c,mm,7,")), "It")  # data with a wrong cell
    read_csv(write(tmp_path / "t.csv", "a,b\nx,y\nx,y\nz,w\nz,w\n"), "It")


def test_a_header_in_the_middle_is_said_to_be_one(tmp_path):
    rows = "age,town,sex\n30,Ulm,f\n,Bonn,m\n"
    with pytest.raises(FedkinError, match=r"^Row 3 of It repeats the names of the columns; delete it\.$"):
        read_csv(write(tmp_path / "t.csv", rows + rows), "It")


@pytest.mark.parametrize(
    "text",
    [
        "Ulm\nBonn\nUlm\n",
        "Ulm,no\nBonn,yes\nUlm,no\n",
        "59.0,153.7,Ulm,no\n60.1,160.2,Bonn,yes\n59.5,158.0,Ulm,no\n",
        "P1,63,male\nP2,50,female\nP3,41,male\n",
        "170,63,A1\n160,50,A2\n",
    ],
)
def test_a_first_line_of_data_is_no_header(tmp_path, text):
    with pytest.raises(FedkinError, match="looks like a row of data"):
        read_csv(write(tmp_path / "t.csv", text), "It")


@pytest.mark.parametrize(
    "text",
    [
        "age,smoker\n5,smoker\n6,no\n",
        "country,2019,2020\nIT,1,2\nFR,2,3\n",
        "kind,400.5,402.5,404\nu,1,2,3\n",
        "town\nUlm\nBonn\n",
        "0,1\n5,6\n",
    ],
)
def test_names_that_are_values_or_numbers_may_be_a_header(tmp_path, text):
    assert list(read_csv(write(tmp_path / "t.csv", text), "It").columns) == text.partition("\n")[0].split(",")


@pytest.mark.parametrize(
    ("begin", "what"),
    [
        (b"PK\x03\x04....", "zip archive, such as an Excel workbook"),
        (b"\xef\xbb\xbf\n<!DOCTYPE html><html>", "a web page"),
        (b'<table border="1" class="dataframe">\n<thead>', "a web page"),
        (b"\r\n\r\n<TABLE><tr>", "a web page"),
        (b"<div>\n<style scoped>", "a web page"),
        (b'<?xml version="1.0"?>\n<Workbook>', "an XML file"),
    ],
)
def test_files_of_other_formats_are_called_what_they_are(tmp_path, begin, what):
    path = tmp_path / "t.csv"
    path.write_bytes(begin + bytes(range(256)))
    with pytest.raises(FedkinError, match=f"^It is no CSV text, but .*{what}; save the table as CSV"):
        read_csv(path, "It")


def test_names_in_angle_brackets_are_no_web_page(tmp_path):
    for header in ("<TICKER>,<DATE>", "<p>;<h1>", "<table> ,<x>", "<x table>|b"):
        separator = next(filter(header.__contains__, ",;|"))
        frame = read_csv(write(tmp_path / "t.csv", f"{header}\n1{separator}2\n3{separator}4\n"), "It")
        assert frame.to_numpy().tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "comments", ["# site north\n", "# north; exported\n# by, hand\n", "#\n", "## a, b\n#x,y\n", "#x,y\n", ""]
)
def test_first_lines_that_begin_with_a_number_sign_are_comments(tmp_path, comments):
    names = [] if comments.endswith("#x,y\n") else ["x,y\n"]
    (tmp_path / "t.csv").write_text("".join([comments, *names, "1,2\n", "3,4\n"]))
    frame = read_csv(tmp_path / "t.csv", "It")
    assert frame.to_numpy().tolist() == [[1, 2], [3, 4]]
    assert [*frame.columns] == [("x", "#x")[not names], "y"]


def test_lines_are_counted_with_comments(tmp_path):
    (tmp_path / "t.csv").write_text("# site north\nx,y\n1,2\n3,4,5\n")
    with pytest.raises(FedkinError, match="line 4 has 3 cells, but the first line names 2 columns"):
        read_csv(tmp_path / "t.csv", "It")


def test_a_header_that_stands_below_again_may_have_empty_columns(tmp_path):
    (tmp_path / "t.csv").write_text(",00,,:\n,00,,:\n,00,,:\n")
    assert read_csv(tmp_path / "t.csv", "It").to_dict("list") == {"00": ["00", "00"], ":": [":", ":"]}


def test_a_row_of_units_above_a_column_without_one_is_refused_in_one_sentence(tmp_path):
    """The acidity has no unit, so that its cell is empty there, and it is read as numbers."""
    units = "probe,zinc,ph,toc\n,mg/l,,mg/l\na,1.5,7.1,3\nb,2.5,6.9,4\nb,2,7.5,5\n"
    with pytest.raises(FedkinError, match=r"^Row 1 of It holds texts such as 'mg/l' above numbers"):
        read_csv(write(tmp_path / "t.csv", units), "It")
    read_csv(write(tmp_path / "t.csv", units.replace("mg/l,,", "mg/l,7.0,")), "It")


@pytest.mark.parametrize(("title", "named"), [("Station 7;;;", 1), ("Site;;Results;", 2)])
def test_a_title_or_heading_above_the_names_is_refused_as_such(tmp_path, title, named):
    """The row below it, with the names of the columns, was called one of units that should be deleted."""
    below = "site;ph;zinc;depth\na;1.5;7;3\nb;2.5;8;4\nc;2;9;5\n"
    sentence = rf"^The first line of It names {named} of 4 columns; it must name all of them \(a title or heading above"
    with pytest.raises(FedkinError, match=sentence):
        read_csv(write(tmp_path / "t.csv", f"{title}\n{below}"), "It")
    read_csv(write(tmp_path / "t.csv", below.replace("\n", ";;\n")), "It")
