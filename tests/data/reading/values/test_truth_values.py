import pandas as pd
import pytest

from fedkin.data.reading.columns import read_column
from fedkin.data.reading.table_options import TableOptions


def read(cells):
    column, values = read_column(pd.Series(cells, dtype=object), "c", "Client 0", TableOptions())
    return column.kind, column.categories, values.tolist()


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["yes", "N", "Y", "no", "0", "1"], ("no", "yes")), (["Yes", "No", "1"], ("No", "Yes")),
        (["TRUE", "no", "1"], ("no", "TRUE")), (["ja", "n", "J", "Nein"], ("Nein", "ja")), (["oui", "0"], ("0", "oui")),
        (["Yes", "No", "ja", "nein", "1"], ("No", "Yes")), (["oui", "no"], ("no", "oui")),
    ],
)  # fmt: skip
def test_several_spellings_of_truth_values_are_one(cells, names):
    kind, categories, values = read(cells)
    assert (kind, categories) == ("boolean", names)
    assert values == [float(cell.lower() in ("yes", "y", "1", "true", "ja", "j", "oui")) for cell in cells]


@pytest.mark.parametrize(
    "cells", [["n", "1"], ["y", "0", "n"], ["yes", "y"], ["no", "2", "1"], ["yes", "no", "unknown"], ["F", "M", "true"]]
)
def test_letters_alone_and_other_words_are_none(cells):
    assert read(cells)[0] == "category"
