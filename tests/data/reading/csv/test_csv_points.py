"""Files whose numbers have points are read among files with decimal commas."""

import pytest

from fedkin import FedkinError
from fedkin.core.table import Column
from fedkin.data.reading.client_files import load_clients
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.reading.tables import read_table

COMMAS = TableOptions(decimal=",")


def read(folder, text, options=COMMAS):
    path = folder / "t.csv"
    path.write_text(text, encoding="utf-8")
    return read_table(path, options=options).x.tolist()


def test_sites_of_both_kinds_are_read_together(tmp_path):
    (tmp_path / "a.tsv").write_text("crp\tlac\n2.025\t0.928\n1.5\t0.712\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("crp;lac\n1,974;1,117\n2,021;1,424\n", encoding="utf-8")
    one, other = load_clients(tmp_path, options=COMMAS)
    assert one.x.tolist() == [[2.025, 0.928], [1.5, 0.712]]
    assert other.x.tolist() == [[1.974, 1.117], [2.021, 1.424]]
    with pytest.raises(FedkinError, match=r"decimal = ',' if it stands .* \(files with points are read all the same\)"):
        load_clients(tmp_path)


def test_numbers_that_may_have_thousands_follow_the_rest_of_their_file(tmp_path):
    assert read(tmp_path, "crp;lac;age\n2.025;10.9;41\n2.128;;22\n")[0] == [2.025, 10.9, 41]
    assert read(tmp_path, "sum;lac\n2.025;10,9\n2.128;9,5\n") == [[2025, 10.9], [2128, 9.5]]
    assert read(tmp_path, "sum;lac\n2.025;10,0\n2.128;9,0\n") == [[2025, 10], [2128, 9]]
    assert read(tmp_path, "sum;age\n2.025;41\n937;22\n") == [[2025, 41], [937, 22]]
    assert read(tmp_path, "sum;age\n2.025.000;41\n937;22\n") == [[2025000, 41], [937, 22]]
    assert read(tmp_path, "dose;lac\n0.5;10,9\n1.25;9,5\n") == [[0.5, 10.9], [1.25, 9.5]]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("crp;age\n2.025;41\n2.128;22\n", "no other number that tells"),
        ("crp;lac;dose\n2.025;10,9;0.5\n2.128;9,5;0.25\n", "columns with points and with commas before decimals"),
    ],
)
def test_numbers_of_which_nothing_tells_are_refused(tmp_path, text, other):
    with pytest.raises(FedkinError) as error:
        read(tmp_path, text)
    assert str(error.value) == (
        f"Column 'crp' of '{tmp_path / 't.csv'}' holds '2.025', whose point may separate thousands or stand before "
        f"decimals, and the file has {other}; write 2025 or 2,025 instead, or name the column in categorical or drop."
    )
    assert read(tmp_path, text, TableOptions(decimal=",", drop=["crp"]))[0][0] in (41, 10.9)


def test_columns_of_names_are_left_as_they_are(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("code;dose\n2.025;0.5\n2.128;0.25\n", encoding="utf-8")
    table = read_table(path, options=TableOptions(decimal=",", categorical=["code"])).table
    assert table is not None
    assert table.columns == (
        Column("code", "category", ("2.025", "2.128"), asked=True),
        Column("dose"),
    )
