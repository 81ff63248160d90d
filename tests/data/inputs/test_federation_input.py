"""Several clients, in every form in which people have them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import TensorDataset

from fedkin.core import FedkinError
from fedkin.data.inputs import federation_input, holds_several

X = np.arange(8.0).reshape(4, 2)
Y = np.array([0, 1, 0, 1])
OBJECTS = np.empty(2, dtype=object)
OBJECTS[:] = [X, X]
FRAME = pd.DataFrame(X, columns=["a", "b"]).assign(kind=Y)


@pytest.mark.parametrize(
    ("clients", "y"),
    [
        ([(X, Y), (X, Y)], None),
        ([[X, Y], [X.tolist(), Y.tolist()]], None),
        (iter([(X, Y), (X, Y)]), None),
        ({0: (X, Y), 1: (X, Y)}.values(), None),
        ([{"x": X, "y": Y}, {"features": X, "label": Y}], None),
        ([X, X], [Y, Y]),
        ([X, X], np.stack([Y, Y])),
        (np.stack([X, X]), iter([Y, Y])),
        (OBJECTS, [Y, Y]),
        ([FRAME, FRAME], "kind"),
        ([FRAME.rename(columns={"kind": "target"})] * 2, None),
    ],
)
def test_labels_are_beside_or_inside(clients: Any, y: Any) -> None:
    found = federation_input(clients, y, seek_labels=True)
    assert [list(own) for own in found.labels] == [Y.tolist()] * 2
    assert [np.asarray(x)[:, :2].tolist() for x in found.source] == [X.tolist()] * 2


def test_clients_keep_their_names_and_numbers_are_names() -> None:
    assert list(federation_input({"north": X, 7: X}).source) == ["north", "7"]
    by_name = federation_input({"north": X, "south": X}, {"south": 1 - Y, "north": Y})
    assert [own.tolist() for own in by_name.labels] == [Y.tolist(), (1 - Y).tolist()]
    in_order = federation_input({"north": X, "south": X}, [Y, 1 - Y])
    assert [own.tolist() for own in in_order.labels] == [Y.tolist(), (1 - Y).tolist()]


@pytest.mark.parametrize(
    ("value", "several"),
    [
        (X, False),
        (X.tolist(), False),
        ((X, Y), False),
        ([X.tolist(), Y.tolist()], False),
        ({"x": X, "y": Y}, False),
        (FRAME, False),
        ("a.csv", False),
        ([X, X], True),
        ((X, X), True),
        ([(X, Y)], True),
        ({"x": X, "y": X}, True),
        ({"north": X}, True),
        ([FRAME], True),
        (["a.csv", "b.csv"], True),
        (iter([X]), True),
    ],
)
def test_one_client_is_told_from_several(value: Any, several: bool) -> None:
    assert holds_several(value) == several


@pytest.mark.parametrize("keys", ["clinic", ["clinic"], pd.Series(["south", "north", "south", "north"])], ids=str)
def test_a_table_divided_by_a_column_is_clients_by_name_without_it(keys: Any) -> None:
    whole = FRAME.assign(clinic=["south", "north", "south", "north"])
    found = federation_input(whole.groupby(keys), "kind")
    assert list(found.source) == ["north", "south"]
    kept = ["a", "b", "kind"] if not isinstance(keys, pd.Series) else ["a", "b", "kind", "clinic"]
    assert all(list(table.columns) == kept for table in found.source.values())
    assert [list(own) for own in found.labels] == [[1, 1], [0, 0]]
    assert list(federation_input(whole.groupby(["clinic", "kind"])).source) == ["north, 1", "south, 0"]
    assert holds_several(whole.groupby(keys))


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ([True, False, True, False], ["False", "True"]),
        ([1.0, 2.0, 1.0, 2.5], ["1", "2", "2.5"]),
        (pd.PeriodIndex(["2024", "2023", "2024", "2023"], freq="Y"), ["2023", "2024"]),
        (pd.cut(pd.Series([1, 2, 1, 2]), [0, 1, 2]), ["(0, 1]", "(1, 2]"]),
        (pd.to_datetime(["2024-05-01", "2024-05-02"] * 2), ["2024-05-01", "2024-05-02"]),
    ],
)
def test_keys_with_a_clear_text_are_names(keys: Any, names: list[str]) -> None:
    groups = FRAME.assign(key=keys).groupby("key", observed=True)
    found = federation_input(groups, "kind")
    assert list(found.source) == names
    assert list(federation_input(dict(list(groups)), "kind").source) == names
    assert found.notes == ()


@pytest.mark.parametrize(
    ("clients", "y", "sentence"),
    [
        (FRAME, None, "fit takes clients in a list, in a dict by name, in a folder with one file each, or as a "),
        ([X, X], Y, "y is a ndarray of int64; it takes the name of the column of labels, or one array of"),
        ([X, X], "kind", "Client 0 is of type ndarray and has"),
        ([FRAME], "kin", "Client 0 has no column 'kin'; did you mean 'kind'?"),
        ([X], {"north": Y}, "y has labels by name, but clients have no names; give both in lists, or both in dicts."),
        ({"north": X, "south": X}, {"north": Y}, "y has no labels of client 'south'; give one array for each client."),
        ({"x": X, "y": Y}, None, "fit takes clients in a list, in a dict by name"),
        (
            [(TensorDataset(torch.tensor(X)), TensorDataset(torch.tensor(X)))],
            None,
            "Client 0 is a pair of data sets; if they are for training and ",
        ),
        ([iter([X])], None, "Client 0 is of type list_iterator; a client's data are"),
    ],
)
def test_what_cannot_be_used_is_refused(clients: Any, y: Any, sentence: str) -> None:
    with pytest.raises(FedkinError) as raised:
        federation_input(clients, y)
    assert str(raised.value).startswith(sentence)
