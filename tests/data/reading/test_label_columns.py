"""Which labels are classes."""

import pytest

from fedkin.core.errors import FedkinError
from fedkin.data.reading.label_columns import check_are_classes, note_on_many_classes

SALARIES = [str(91_000 + 137 * row) for row in range(371)]
CHARACTERS = [str(code) for code in range(3_000)]
WORDS = [f"class {code}" for code in range(371)]


@pytest.mark.parametrize(("column", "said"), [("salary", "Column 'salary' has"), (None, "The labels are")])
def test_numbers_that_come_once_or_twice_are_no_classes(column: str | None, said: str) -> None:
    with pytest.raises(FedkinError) as error:
        check_are_classes(SALARIES, 397, column)
    assert str(error.value) == (
        f"{said} 371 different numbers in 397 rows; labels must be classes, such as ranges of these numbers, for "
        "regression is not supported."
    )


@pytest.mark.parametrize(
    ("classes", "rows"), [(CHARACTERS, 9_000), (CHARACTERS[:49], 147), (CHARACTERS[:20], 20), (WORDS, 397)]
)
def test_many_classes_are_classes(classes: list[str], rows: int) -> None:
    check_are_classes(classes, rows, "label")


def test_many_classes_of_few_rows_are_noted() -> None:
    assert note_on_many_classes(CHARACTERS, 30_000) == []
    assert note_on_many_classes(CHARACTERS[:20], 40) == []
    assert note_on_many_classes(CHARACTERS, 29_999) == [
        "Labels are 3,000 different numbers in 29,999 rows, and each is a class of its own, for regression is not "
        "supported."
    ]
    assert note_on_many_classes(WORDS, 397) == [
        "Labels are 371 different values in 397 rows, and each is a class of its own."
    ]
