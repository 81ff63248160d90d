"""Columns of which logarithms are taken as they are read, and those of which none can be taken."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from fedkin.core.errors import FedkinError
from fedkin.core.table import Column
from fedkin.data.reading.logarithms import as_numbers, original, slope
from fedkin.data.reading.sources import load
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.reading.tables import frame_to_dataset, frame_to_table, read_table


def read(cells, **options):
    """The one column of a table, and its values."""
    table = frame_to_table(pd.DataFrame({"c": cells}), "Client 0", TableOptions(**options))
    return table.columns[0], table.values[:, 0].tolist()


def refusal(cells, **options):
    with pytest.raises(FedkinError) as error:
        read(cells, **options)
    return str(error.value)


@pytest.mark.parametrize(
    "cells", [[1.0, 100.0], [1, 100], ["1", "100"], ["1.0 ", "1e2"], pd.array([1, 100], dtype="Int64")]
)
def test_the_logarithm_is_taken_of_numbers_in_any_form(cells):
    column, values = read(cells, log="c")
    assert column == Column("c", "log")
    assert values == pytest.approx([0.0, math.log(100)])
    assert read(cells, log1p="c") == (Column("c", "log1p"), pytest.approx([math.log(2), math.log(101)]))


def test_durations_are_hours_and_whole_numbers_that_might_be_dates_are_numbers():
    assert read(["1:00", "2:00"], log="c")[1] == pytest.approx([0.0, math.log(2)])
    assert read([20240101, 20240201], log="c")[1] == pytest.approx([math.log(20240101), math.log(20240201)])


def test_empty_cells_stay_empty_and_so_do_columns():
    assert str(read([1.0, None], log="c")[1]) == "[0.0, nan]"
    for cells in ([None, None], ["", "NA"], ["-"] * 6):
        column, values = read(cells, log="c")
        assert column == Column("c", "log")
        assert all(map(math.isnan, values))
    assert str(read([1, -9], log="c", na_values=[-9])[1]) == "[0.0, nan]"


def test_numbers_too_large_to_add_up_are_no_longer_so():
    assert read([1e30, 1.0], log="c")[1] == pytest.approx([math.log(1e30), 0.0])
    assert refusal([math.inf, 1.0], log="c") == "Column 'c' of Client 0 has 1 infinite values in 2 rows."


def test_zeros_and_negative_numbers_are_refused_with_what_to_do():
    begin = "Column 'c' of Client 0 holds"
    assert refusal([1, 0, 3, 0], log="c") == (
        f"{begin} 0 in row 2, and 2 such cells in all, but log needs numbers above 0; name the column in log1p, for "
        "log(1 + x), or if 0 stands for a missing value, empty these cells or name it in na_values."
    )
    assert "empty this cell or name it in na_values" in refusal([1, 0, 3], log="c")
    assert refusal([1, 0, -9], log="c") == (
        f"{begin} 0 in row 2, and 2 such cells in all, but log needs numbers above 0; correct or empty them, name them "
        "in na_values, or do not name the column in log."
    )
    assert refusal([0, -9.5], log1p="c") == (
        f"{begin} -9.5 in row 2, but log1p needs numbers of 0 or above; correct or empty it, name it in na_values, or "
        "do not name the column in log1p."
    )
    assert read([0, 1], log1p="c")[1] == pytest.approx([0.0, math.log(2)])


def test_of_new_rows_nothing_is_advised_that_only_a_new_run_could_do():
    assert refusal([1, 0], log="c", features=["c"]) == (
        "Column 'c' of Client 0 holds 0 in row 2, but log needs numbers above 0; correct or empty it, or name it in "
        "na_values."
    )
    assert refusal(["3", "few"], log="c", features=["c"]) == (
        "Column 'c' of Client 0 holds categories such as 'few'; in the clients' tables it holds numbers."
    )


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["Ulm", "Bonn"], "categories such as 'Bonn'"),
        (["yes", "no"], "truth values"),
        (["2024-01-31", "2024-02-01"], "dates"),
        (pd.Categorical(["a", "b"], ordered=True), "levels such as 'a'"),
    ],
)
def test_only_numbers_have_logarithms(cells, words):
    assert (
        refusal(cells, log1p="c") == f"Column 'c' of Client 0 holds {words}; only columns of numbers can be in log1p."
    )


def test_a_few_texts_among_numbers_are_refused_as_without():
    assert "holds numbers, but '12x' in row 41" in refusal([*map(str, range(1, 41)), "12x"], log="c")


def test_all_problems_of_a_table_come_together(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,c\n0,x,1\n2,y,2\n")
    with pytest.raises(FedkinError) as error:
        read_table(path, options=TableOptions(log=["a", "b", "c"]))
    assert [line.split(" of ")[0] for line in str(error.value).splitlines()] == ["Column 'a'", "Column 'b'"]


def test_a_column_of_which_logarithms_are_taken_is_taken_for_no_labels():
    frame = pd.DataFrame({"y": [1, 2, 3, 1], "a": [1.0, 2.0, 3.0, 4.0]})
    assert frame_to_dataset(frame, "a", "It", options=TableOptions(log="y")).table.names == ["y", "a"]


def test_a_file_whose_column_is_called_like_labels_keeps_it_as_a_feature(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,a\n1,1\n2,2\n3,3\n1,4\n")
    assert read_table(path).features == ["a"]
    assert read_table(path, options=TableOptions(log="y")).features == ["y", "a"]


def test_embedded_data_take_the_options_too():
    plain, wine = load("wine"), load("wine", options=TableOptions(log="proline"))
    at = wine.table.names.index("proline")
    assert [column.name for column in wine.table.columns if column.kind == "log"] == ["proline"]
    assert torch.allclose(wine.table.values[:, at], plain.table.values[:, at].log())
    assert (wine.x == wine.table.values).all()
    others = [place for place in range(len(plain.table.names)) if place != at]
    assert (wine.table.values[:, others] == plain.table.values[:, others]).all()
    with pytest.raises(FedkinError, match=r"^Unknown column in log 'malic_acids'"):
        load("wine", options=TableOptions(log="malic_acids"))
    with pytest.raises(FedkinError, match=r"^Column 'x0' of 'blobs' holds -.* and \d+ such cells in all"):
        load("blobs", options=TableOptions(log="x0"))


def test_numbers_come_back_as_they_were_written():
    numbers = np.array([9999, 0.1, 1234567.25, 3e-7, 120])
    frame = pd.DataFrame({"a": numbers, "b": numbers, "c": numbers})
    table = as_numbers(frame_to_table(frame, "It", TableOptions(log="a", log1p="b")))
    assert {column.kind for column in table.columns} == {"number"}
    assert table.of("a").tolist() == table.of("c").tolist() == numbers.tolist()
    assert table.of("b").tolist() == pytest.approx(numbers.tolist(), rel=1e-9)


def test_what_a_client_may_send_never_overflows():
    assert (original(1e300, "log"), original(-1e300, "log"), original(5.0, "number")) == (math.exp(700), 0.0, 5.0)
    assert original(math.log1p(0.5), "log1p") == pytest.approx(0.5)
    assert math.isnan(original(math.nan, "log"))
    assert (slope(math.log(3), "log1p"), slope(9.0, "date"), slope(1e300, "log")) == (
        pytest.approx(3), 1.0, math.exp(700),
    )  # fmt: skip
