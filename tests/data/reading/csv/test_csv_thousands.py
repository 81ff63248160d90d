"""Points and commas in the numbers of a CSV file: of decimals, or of thousands."""

import pytest

from fedkin.core.errors import FedkinError
from fedkin.data.reading.csv.csv_files import read_csv
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.reading.tables import read_table


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_decimal_commas(tmp_path):
    path = write(tmp_path / "t.csv", "a;b;c\n1,5;x;-0,25\n?;y;1\n")
    read = read_table(path, options=TableOptions(decimal=","))
    assert [one.kind for one in read.table.columns] == ["number", "category", "number"]
    assert read.x.nan_to_num(-1).tolist() == [[1.5, 0, -0.25], [-1, 1, 1]]
    with pytest.raises(FedkinError) as error:
        read_table(path)
    assert [line.partition(" of ")[0] for line in str(error.value).splitlines()] == ["Columns 'a', 'c'"]


def test_decimal_commas_before_an_exponent(tmp_path):
    path = write(tmp_path / "t.csv", "a;b\n6,123E+01;-1,5e-3\n7,25E+00;2,0e0\n")
    with pytest.raises(FedkinError, match=r"decimal comma, such as '6,123E\+01'; set decimal = ','"):
        read_table(path)
    assert read_table(path, options=TableOptions(decimal=",")).x.tolist() == [[61.23, -0.0015], [7.25, 2.0]]
    quoted = write(tmp_path / "q.csv", 'a,b\n1,"6,123E+01"\n2,"7,25E+00"\n')
    assert read_table(quoted, options=TableOptions(decimal=",")).x[:, 1].tolist() == [61.23, 7.25]


def test_a_file_with_commas_between_cells_has_points_among_files_with_decimal_commas(tmp_path):
    options = TableOptions(decimal=",")
    assert read_table(write(tmp_path / "t.csv", "age,crp\n85,8.486\n89,8.59\n"), options=options).x[0, 1] == 8.486
    mixed = write(tmp_path / "m.csv", "age,crp\n85,8.486\n89,x\n")
    assert read_table(mixed, options=options).table.columns[1].categories == ("8.486", "x")
    assert read_table(write(tmp_path / "q.csv", 'age,crp\n85,"8,486"\n'), options=options).x[0, 1] == 8.486
    thousands = 'age,sum\n85,"2.448,89"\n'
    assert read_table(write(tmp_path / "g.csv", thousands), options=options).x[0, 1] == 2448.89
    with pytest.raises(FedkinError, match=r"decimal comma, such as '2\.448,89'; set decimal = ','"):
        read_table(tmp_path / "g.csv")
    assert read_table(write(tmp_path / "s.csv", "age;crp\n85;8.486\n89;1,5\n"), options=options).x[0, 1] == 8486


def test_numbers_with_a_decimal_comma_are_no_units(tmp_path):
    rows = "".join(f"-0,{row};1,{row}\n" for row in range(12))
    assert len(read_csv(write(tmp_path / "t.csv", "temp;hum\n" + rows), "It")) == 12


def test_points_that_seem_to_part_thousands_are_asked_about(tmp_path):
    rows = [f"{at};{at * 347:,}".replace(",", ".") for at in range(1, 30)]
    path = write(tmp_path / "t.csv", "a;b\n" + "\n".join(rows) + "\n")
    with pytest.raises(FedkinError) as error:
        read_csv(path, "It")
    assert str(error.value) == (
        "Column 'b' of It holds '347' and '1.041', where the point seems to separate thousands; set decimal = ',', or "
        "write the numbers without it."
    )
    assert read_table(path, options=TableOptions(decimal=",")).x[:, 1].tolist() == [at * 347 for at in range(1, 30)]
    other = write(tmp_path / "u.csv", "a;b\n" + "\n".join(f"{at};{at * 347 / 1000}" for at in range(1, 400)) + "\n")
    assert read_csv(other, "It")["b"][0] == 0.347


def test_commas_that_seem_to_part_thousands_are_asked_about_though_decimals_have_commas(tmp_path):
    amounts = [f'"{at * 347:,}"' if at > 2 else str(at * 347) for at in range(1, 30)]
    for separator in ",;":
        rows = "\n".join(f"{at}{separator}{amount}" for at, amount in enumerate(amounts))
        path = write(tmp_path / "t.csv", f"a{separator}b\n{rows}\n")
        with pytest.raises(FedkinError) as error:
            read_table(path, options=TableOptions(decimal=","))
        assert str(error.value) == (
            f"Column 'b' of '{path}' holds '347' and '1,041', where the comma seems to separate thousands; write the "
            "numbers without it."
        )
        assert read_table(path).x[:, 1].tolist() == [at * 347 for at in range(1, 30)]


def test_points_that_part_thousands_between_commas_end_in_zeros(tmp_path):
    def read(step):
        rows = "\n".join(f"{at},{at * step:,}".replace(",", ".").replace(".", ",", 1) for at in range(1, 30))
        return read_csv(write(tmp_path / "t.csv", f"a,b\n{rows}\n"), "It")["b"]

    with pytest.raises(FedkinError) as error:
        read(350)
    assert str(error.value) == (
        "Column 'b' of It holds '350' and '1.050', where the point seems to separate thousands; write the numbers "
        "without it."
    )
    fractions = "\n".join(f"{at},{at * 347 / 1000 if at > 1 else 347}" for at in range(1, 400))
    assert read_csv(write(tmp_path / "u.csv", f"a,b\n{fractions}\n"), "It")["b"][1] == 0.694


@pytest.mark.parametrize("separator", [",", ";"])
def test_numbers_of_three_decimals_all_are_read_as_written(tmp_path, separator):
    words = ["250.000", *(f"{100 + 7.123 * at:.3f}" for at in range(40)), "310.500"]
    path = tmp_path / "north.csv"
    path.write_text(f"a{separator}b\n" + "\n".join(f"{word}{separator}x" for word in words) + "\n")
    assert read_csv(path, "'north.csv'")["a"].tolist() == [float(word) for word in words]
