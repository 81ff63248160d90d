"""What clients are called, and how a user names one."""

import pytest

from fedkin.experiment.client_names import client_name, position_of, short_names


def test_short_names_stay_different():
    assert short_names(["a.csv", "b.v2", "a.npz"]) == ["a.csv", "b.v2", "a.npz"]


def test_a_client_without_a_name_is_called_by_its_id():
    assert [client_name(i, ["north.csv"]) for i in (0, 1)] == ["north", "1"]


@pytest.mark.parametrize(
    ("client", "at"),
    [("north.csv", 0), ("north", 0), ("7", 1), ("1", 1), (2, 2), ("3", None), (-1, None), ("east", None), (None, None)],
)
def test_a_client_is_named_by_its_file_or_its_position(client, at):
    assert position_of(client, ["north.csv", "7.csv", "south.csv"], 3) == at
