import math

import numpy as np
import pandas as pd
import pytest

from fedkin.data.reading.columns import read_column
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.reading.tables import read_table


@pytest.mark.parametrize("code", [".a", ".Z", "._"])
@pytest.mark.parametrize(
    ("cells", "kind"),
    [(["1", "2", "3"], "number"), ([f"{at}.5" for at in range(40)], "number"), (["2024-03-01", "2024-04-01"], "date")],
)
def test_codes_of_stata_and_sas_among_numbers_and_dates_are_empty_cells(tmp_path, code, cells, kind):
    cells = [code, *cells, code]
    path = tmp_path / "north.csv"
    pd.DataFrame({"a": cells, "b": range(len(cells))}).to_csv(path, index=False)
    for column, values in (
        read_column(pd.Series(cells), "a", "Client 0", TableOptions()),
        (read_table(path).table.columns[0], read_table(path).table.values[:, 0].numpy()),
    ):
        assert column.kind == kind
        assert np.isnan(values[[0, -1]]).all()
        assert not any(map(math.isnan, values[1:-1]))


def test_such_texts_are_names_elsewhere():
    for cells in ([".c", ".h", ".c"], ["main", ".c", ".h"]):
        column, _ = read_column(pd.Series(cells), "a", "Client 0", TableOptions())
        assert set(column.categories) == set(cells)
