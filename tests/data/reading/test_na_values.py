"""Values that stand for empty cells."""

import numpy as np
import pandas as pd
import pytest

from fedkin.core import FedkinError
from fedkin.data.options import TableOptions
from fedkin.data.scenarios.already_split import ClientFiles
from fedkin.data.tables import frame_to_dataset


def empties(frame: pd.DataFrame, **options: object) -> dict[str, list[int]]:
    """The rows of each column's empty cells."""
    table = frame_to_dataset(frame, "it", "It", "none", options=TableOptions(**options)).table  # type: ignore[arg-type]
    return {name: np.flatnonzero(table.of(name).isnan().numpy()).tolist() for name in table.names}


def test_numbers_and_texts_are_emptied_in_every_column() -> None:
    frame = pd.DataFrame(
        {"a": [1, -9, 3, 4], "b": [0.5, 2.0, -9.0, 1.0], "c": ["x", "unknown", "y", " unknown "], "d": [9, 8, 7, 6]}
    )
    assert empties(frame, na_values=[-9, "unknown"]) == {"a": [1], "b": [2], "c": [1, 3], "d": []}
    assert frame.a.tolist() == [1, -9, 3, 4]  # not modified


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([True], r"^na_values has True; it should have texts and numbers, such as 'unknown' or -9\.$"),
        ({"age": None}, r"^na_values\['age'\] has None; it should have texts and numbers"),
    ],
)
def test_other_values_are_refused(given: object, said: str) -> None:
    with pytest.raises(FedkinError, match=said):
        TableOptions(na_values=given)  # type: ignore[arg-type]


def test_values_that_no_client_holds_are_noted() -> None:
    clients = [
        pd.DataFrame({"a": [1, -9, 3], "b": ["x", "unknown", "x"]}),
        pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}),
    ]

    def notes(given: object) -> tuple[str, ...]:
        return ClientFiles(clients, table=TableOptions(na_values=given)).build().notes  # type: ignore[arg-type]

    assert notes(["unknown", "-9", "NA", "None"]) == ()
    assert notes({"a": -9, "b": "unknown"}) == ()
    assert notes([-9, -99]) == ("No cell holds -99, as named in na_values; is it written otherwise there?",)
    assert notes({"a": [-9, "unknown"], "b": "unkown"}) == (
        "No cell holds 'unknown' in column 'a', 'unkown' in column 'b', as named in na_values; are they written "
        "otherwise there?",
    )
