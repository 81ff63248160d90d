"""Words of empty cells in a CSV file that are values of some columns."""

from fedkin.data.reading.table_options import TableOptions
from fedkin.data.reading.tables import read_table


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_a_dash_beside_plus_is_a_value(tmp_path):
    rows = ["id,protein,hbsag,age,ward", "1,+,-,30,-", "2,-,+,-,A", "3,2+,-,40,B", "4,,-,50,-"]
    read = read_table(write(tmp_path / "t.csv", "\n".join(rows)), "hbsag")
    assert read.classes == ["+", "-"]
    protein, age, ward = (read.table.columns[read.table.names.index(name)] for name in ("protein", "age", "ward"))
    assert protein.categories == ("+", "-", "2+")
    assert read.table.of("protein").isnan().tolist() == [False, False, False, True]
    assert (age.kind, ward.categories) == ("number", ("A", "B"))
    assert int(read.table.of("age").isnan().sum()) == 1


def test_dashes_alone_are_empty_cells_unless_the_clients_know_better(tmp_path):
    path = write(tmp_path / "t.csv", "age,hbsag\n30,-\n40,-\n")
    assert read_table(path).table.of("hbsag").isnan().all()
    known = read_table(path, options=TableOptions(categorical=["hbsag"], signed=["hbsag"])).table
    assert known.columns[1].categories == ("-",)
    emptied = TableOptions(categorical=["hbsag"], signed=["hbsag"], na_values=["-"])
    assert read_table(path, options=emptied).table.of("hbsag").isnan().all()


def test_none_is_a_level_of_texts_unless_the_file_has_it_among_numbers(tmp_path):
    rows = "None,1\nMild,2\nSevere,{}\n" * 4
    read = read_table(write(tmp_path / "t.csv", "pain,age\n" + rows.format(*["3"] * 4))).table
    assert read.columns[0].categories == ("Mild", "None", "Severe")
    read = read_table(write(tmp_path / "t.csv", "pain,age\n" + rows.format("", *["3"] * 3))).table
    assert read.columns[0].categories == ("Mild", "None", "Severe")
    read = read_table(write(tmp_path / "t.csv", "pain,age\n" + rows.format("None", *["3"] * 3))).table
    assert read.columns[0].categories == ("Mild", "Severe")
    options = TableOptions(ordinal={"alley": ["NA", "Gravel", "Paved"]})
    read = read_table(write(tmp_path / "t.csv", "alley,age\nNA,1\nGravel,NA\nPaved,2\n"), options=options)
    assert read.x.nan_to_num(-1).tolist() == [[0, 1], [1, -1], [2, 2]]
