"""CSV files that are gzip archives."""

import gzip

import pytest

from fedkin.core.errors import FedkinError
from fedkin.data.reading.csv.csv_files import read_csv
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.reading.tables import read_table


@pytest.mark.parametrize("name", ["t.csv.gz", "t.TSV.GZ", "t.csv"])
def test_compressed_tables_are_unpacked(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress("größe;c\n1,5;x\n2,5;y\n".encode("utf-16")))
    frame = read_csv(path, "It", ",")
    assert frame["größe"].tolist() == [1.5, 2.5]
    assert read_table(path, options=TableOptions(decimal=",")).name == name


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(b"a,b\n1,2\n")[:-9], "is a damaged gzip archive .*; copy it again"),
        (b"\x1f\x8b\x08" + bytes(range(100)), "is a damaged gzip archive|cannot be read as .csv"),
        (gzip.compress(b"PK\x03\x04...."), "is no CSV text, but a zip archive"),
        (gzip.compress(b"a\n\xff\n"), r"cannot be read as \.csv \(line 2 is no UTF-8\)"),
    ],
)
def test_damaged_archives_are_one_sentence(tmp_path, content, said):
    (tmp_path / "t.csv.gz").write_bytes(content)
    with pytest.raises(FedkinError, match=f"^It (?:{said})"):
        read_csv(tmp_path / "t.csv.gz", "It")
