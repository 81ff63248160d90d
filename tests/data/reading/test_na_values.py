"""Values that stand for empty cells."""

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedkin.core import FedkinError
from fedkin.data.files import read_file
from fedkin.data.options import TableOptions
from fedkin.data.scenarios.already_split import ClientFiles
from fedkin.data.tables import frame_to_table
from fedkin.experiment.terminal_tables import in_shell


def empties(frame: pd.DataFrame, **options: object) -> dict[str, list[int]]:
    """The rows of each column's empty cells."""
    table = frame_to_table(frame, "It", TableOptions(**options))  # type: ignore[arg-type]
    return {name: np.flatnonzero(table.of(name).isnan().numpy()).tolist() for name in table.names}


def test_numbers_and_texts_are_emptied_in_every_column() -> None:
    frame = pd.DataFrame(
        {"a": [1, -9, 3, 4], "b": [0.5, 2.0, -9.0, 1.0], "c": ["x", "unknown", "y", " unknown "], "d": [9, 8, 7, 6]}
    )
    assert empties(frame, na_values=[-9, "unknown"]) == {"a": [1], "b": [2], "c": [1, 3], "d": []}
    assert frame.a.tolist() == [1, -9, 3, 4]  # not modified


def test_a_number_that_is_a_true_value_elsewhere_is_asked_about(tmp_path: Path) -> None:
    rows = np.arange(60)
    frame = pd.DataFrame({"chol level": np.where(rows % 6, 150 + rows, 0), "kids": rows % 4, "text": ["0", "x"] * 30})
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(FedkinError, match="15 cells of 'kids'") as error:
        read_file(tmp_path / "a.csv", options=TableOptions(na_values=0))
    form = str(error.value).rpartition("set na_values = ")[2].removesuffix(".")
    assert in_shell(str(error.value)).endswith(f"""give --set 'data.na_values={form.replace(" = [", "=[")}'.""")
    given = tomllib.loads(f"na_values = {form}")["na_values"]
    assert empties(frame, na_values=given) == {"chol level": rows[::6].tolist(), "kids": [], "text": []}
    codes = pd.DataFrame({"a": np.where(rows % 6, rows % 5, -9), "b": np.where(rows % 3, rows / 7, 999)})
    assert {name: len(own) for name, own in empties(codes, na_values=[-9, 999]).items()} == {"a": 10, "b": 20}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([True], r"^na_values has True; it should have texts and numbers, such as 'unknown' or -9\.$"),
        ({"age": None}, r"^na_values\['age'\] has None; it should have texts and numbers"),
        ("", r"^na_values has ''; it should"),
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
