"""How the columns of one table are shown to whoever holds it."""

import torch

from fedkin.core.table import Column, Table
from fedkin.experiment.data_overview import columns_at_a_site


def test_numbers_are_shown_as_people_write_them_and_empty_columns_as_empty() -> None:
    nan, columns = torch.nan, (Column("patient"), Column("id"), Column("dose"), Column("notes"), Column("far"))
    values = torch.tensor([[0, 5_000_000, 1_234_567.8, nan, -1e20], [1, 5_000_599, 0.125, nan, 2]], dtype=torch.float64)
    assert columns_at_a_site(Table(columns, values, id="patient")).splitlines() == [
        "column   kind    empty  values",
        "patient  id          0  0 to 1",
        "id       number      0  5,000,000 to 5,000,599",
        "dose     number      0  0.125 to 1,234,570",
        "notes    empty       2",
        "far      number      0  -1e+20 to 2",
    ]
