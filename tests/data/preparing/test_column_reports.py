import torch

from fedkin.core.table import Column, Table
from fedkin.data.preparing.column_reports import reports_of


def reported(own_id: str) -> list[bool]:
    """Which of two columns, one nearly unique and one not, names the rows of a client that says this of them."""
    names = tuple(f"p{i:02}" for i in range(30))
    values = torch.stack([torch.arange(30.0), torch.arange(30.0) % 3], 1).double()
    table = Table((Column("name", "category", names), Column("visit")), values, own_id)
    return [unique for _, _, unique, _ in reports_of(table, 1)["columns"]]


def test_what_names_rows_is_recognised_or_what_the_client_says() -> None:
    assert reported("auto") == [True, False]
    assert reported("visit") == [False, True]
    assert reported("none") == [False, False]
