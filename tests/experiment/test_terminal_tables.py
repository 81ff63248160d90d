from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fedkin.experiment.terminal_tables import fitted


def test_a_table_that_is_too_wide_is_parted_and_nothing_is_cut() -> None:
    numbers = [["method", "alpha", "beta", "gamma"], ["kfed", "0.1", "0.2", "0.3"]]
    assert fitted(numbers, width=20) == (
        "method  alpha  beta\nkfed      0.1   0.2\n\nmethod  gamma\nkfed      0.3"
    )  # fmt: skip
    assert fitted(numbers, width=5) == "\n\n".join(fitted([[r[0], r[at]] for r in numbers]) for at in (1, 2, 3))


@given(st.lists(st.lists(st.text("ab", max_size=9), min_size=4, max_size=4), min_size=1), st.integers(1, 60))
def test_every_cell_is_there_and_lines_are_as_short_as_cells_allow(rows: list[list[str]], width: int) -> None:
    text = fitted(rows, (0,), width)
    assert [one for row in rows for one in row if one not in text] == []
    widest = [max(len(row[at]) for row in rows) for at in range(4)]
    assert max(map(len, text.split("\n"))) <= max(width, widest[0] + 2 + max(widest[1:]))
