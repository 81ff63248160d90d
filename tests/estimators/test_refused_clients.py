"""Labelled clients that estimators of clustered federated learning refuse."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

import fedkin
from fedkin.core import FedkinError
from fedkin.data.inputs.client_input import FORMS
from fedkin.data.inputs.federation_input import COLLECTIONS

X, Y = load_digits(return_X_y=True)
A, B = X[Y < 5][:100], Y[Y < 5][:100]
TAKES = f"fit takes {COLLECTIONS}"
PLAIN = "they should be integers, booleans or strings"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (X, f"{TAKES}; got a single array and no labels."),
        (None, f"{TAKES}; got NoneType."),
        (42, f"{TAKES}; got int."),
        (pd.DataFrame(A), f"{TAKES}; got a single DataFrame; table.groupby('hospital') divides it by a column."),
        ([], "The list of clients is empty; at least one is needed."),
        ({}, "The dict of clients is empty; at least one is needed."),
        ({None: (A, B)}, "A client is called None; names are texts, numbers, dates or truth values."),
        ([A, A], "Client 0 has no labels; give clients as pairs (x, y), arrays of labels as y, or the name of"),
        ([(A, B), (A, B, B)], f"Client 1 is a tuple of 3; a client's data are {FORMS}."),
        (
            list(pd.DataFrame({"site": ["x", "y"], "a": [1, 2]}).groupby("site")),
            "x has no labels; give clients as pairs (x, y), arrays of labels as y, or the name of",
        ),
        ([(A, B), object()], f"Client 1 is of type object; a client's data are {FORMS}."),
        (
            [(A, B), (A, None)],
            "Client 1 has no labels, unlike Client 0; give clients as pairs (x, y), arrays of",
        ),
        ([(A, B[:3])], "Client 0 has labels of shape (3,) for 100 samples; it needs one for each."),
        ([(A, B[:, None][:3])], "Client 0 has labels of shape (3, 1) for 100 samples; it needs one for each."),
        ([(A[:2], [1, [2]])], "Client 0 has labels that do not form an array; it needs one for each of its samples."),
        ([(A, B), (A[:2], [1, np.nan])], f"Client 1 has the label nan; {PLAIN}, none missing."),
        ([(A[:2], [1, 0.25])], "Client 0 has labels that are fractions, such as 0.25; labels must be classes"),
        (
            [(A, np.arange(100) // 2 * 500), (A[:2], [1, 2])],
            "The labels are 52 different numbers in 102 rows; labels must be classes, such as ranges of these numbers, "
            "for regression is not supported.",
        ),
        (
            [(A[:2], [1, None])],
            "Client 0 has the label None; they should be all numbers or all strings, none missing.",
        ),
        ([(A[:2], np.array([1j, 2]))], f"Client 0 has labels of type complex128; {PLAIN}."),
        (
            [(A, B), (A[:2], ["a", "b"])],
            "Client 1 has strings for labels where Client 0 has numbers; give all the same type.",
        ),
        (
            {"p0": (A, B), "p1": (A[:2], ["a", "b"])},
            "p1 has strings for labels where p0 has numbers; give all the same type.",
        ),
        ([(A[:2], [3, 3])], "All labels of all clients are 3; there must be two classes or more."),
        ([(A, B), (A[:, :5], B)], "Client 1 has 5 features where others have 64 features; all clients need the same."),
        ([(A * np.nan, B)], "Client 0 has missing or infinite values in 100 of 100 samples; all must be finite"),
        ([(A[:0], B[:0])], "Client 0 is empty (shape (0, 64)); every client needs at least one sample"),
    ],
)
def test_clients_that_cannot_be_used_are_refused(given: Any, sentence: str) -> None:
    with pytest.raises(FedkinError) as raised:
        fedkin.OCFL(rounds=1, module="perceptron", random_state=0).fit(given)
    assert str(raised.value).startswith(sentence)
    assert "\n" not in str(raised.value)
