"""Which labels are classes."""

import pytest

from fedkin.core.errors import FedkinError
from fedkin.data.dataset import check_are_classes

SALARIES = [str(91_000 + 137 * row) for row in range(371)]


@pytest.mark.parametrize(("column", "said"), [("salary", "Column 'salary' has"), (None, "The labels are")])
def test_numbers_that_come_once_or_twice_are_no_classes(column: str | None, said: str) -> None:
    with pytest.raises(FedkinError) as error:
        check_are_classes(SALARIES, 397, column)
    assert str(error.value) == (
        f"{said} 371 different numbers in 397 rows; labels must be classes, such as ranges of these numbers, for "
        "regression is not supported."
    )
