"""Truth values as labels, written in different ways."""

import pandas as pd
import pytest

from fedkin.data.reading.client_files import load_clients
from fedkin.data.reading.label_codes import meant_by


def labelled(**labels: list[object]) -> dict[str, pd.DataFrame]:
    return {name: pd.DataFrame({"v": range(len(own)), "ill": own}) for name, own in labels.items()}


def test_truth_values_are_written_as_most_clients_write_them() -> None:
    frames = labelled(
        a=["no", "yes", "no"], b=[0, 1, 1], c=["Yes", " no", "yes "], d=[True, False, True], e=[1, 1, 1], f=["no"] * 3
    )
    read = load_clients(frames, "ill")
    assert [one.classes for one in read] == [["no", "yes"]] * 6
    assert [one.y.tolist() for one in read if one.y is not None] == [
        [0, 1, 0], [0, 1, 1], [1, 0, 1], [1, 0, 1], [1, 1, 1], [0, 0, 0],
    ]  # fmt: skip
    assert [one.written for one in read] == [(), ("0", "1"), ("Yes", "no", "yes"), ("False", "True"), ("1",), ()]


def test_truth_values_of_other_languages_are_those_of_most_clients() -> None:
    assert meant_by({"a": ["no", "sí"], "b": ["nie", "tak"], "c": ["no", "sí"]}) == {
        "no": "no", "sí": "sí", "nie": "no", "tak": "sí"
    }  # fmt: skip
    assert meant_by({"a": ["no", "sí"], "b": ["tak"]}) == {}


@pytest.mark.parametrize(
    "own",
    [
        {"a": ["no", "yes"], "b": ["yes"]},
        {"a": ["0", "1"], "b": ["0", "1", "2"], "c": ["no", "yes"]},
        {"a": ["f", "n", "t"], "b": ["0", "1"]},
        {"a": ["f", "m"], "b": ["f"], "c": ["0", "1"]},
        {"a": ["f"], "b": ["0", "1"]},
        {"a": ["CH", "MM"], "b": ["0", "1"]},
        {"a": []},
        {},
    ],
)
def test_other_labels_stay_as_they_are(own: dict[str, list[str]]) -> None:
    assert meant_by(own) == {}


def test_two_spellings_of_a_truth_value_are_one() -> None:
    assert meant_by({"a": ["No", "yes"], "b": ["no", "yes"]}) == {"No": "No", "no": "No", "yes": "yes"}
