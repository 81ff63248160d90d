from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.report.text_tables import aligned, fitted


def test_names_are_flush_left_and_numbers_flush_right() -> None:
    assert aligned([["", "ARI"], ["kfed", "0.5"], ["a", "12.25"]]) == "        ARI\nkfed    0.5\na     12.25"


def test_columns_of_words_are_flush_left_without_trailing_blanks() -> None:
    assert aligned([["a", "1", "long"], ["bb", "20", "x"]], left=(0, 2)) == "a    1  long\nbb  20  x"


def test_rows_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        aligned([["a", "b"], ["c"]])


WIDE = [["name", "one", "two", "what it is"], ["kfed", "0.51", "12.0", "k-means at every client and of the centres"]]


def test_a_last_column_of_words_goes_on_below_where_the_width_does_not_suffice() -> None:
    assert fitted(WIDE, (0, 3), 45) == (
        "name   one   two  what it is\n"
        "kfed  0.51  12.0  k-means at every client and\n"
        "                  of the centres"
    )  # fmt: skip


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
