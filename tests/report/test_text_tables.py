from __future__ import annotations

import pytest

from fedkin.report.text_tables import aligned


def test_names_are_flush_left_and_numbers_flush_right() -> None:
    assert aligned([["", "ARI"], ["kfed", "0.5"], ["a", "12.25"]]) == "        ARI\nkfed    0.5\na     12.25"


def test_columns_of_words_are_flush_left_without_trailing_blanks() -> None:
    assert aligned([["a", "1", "long"], ["bb", "20", "x"]], left=(0, 2)) == "a    1  long\nbb  20  x"


def test_rows_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        aligned([["a", "b"], ["c"]])
