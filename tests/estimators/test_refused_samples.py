"""Clients and samples that estimators of clusters of samples refuse, in a sentence."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_blobs

import fedkin
from fedkin.core import FedkinError
from fedkin.data.inputs.federation_input import COLLECTIONS

QUICK = {
    "initial": "kmeans",
    "n_clusters": 2,
    "local_epochs": 1,
    "rounds": 2,
    "min_steps": 40,
    "max_iterations": 2,
    "random_state": 0,
}

X, Y = make_blobs([24, 24, 24], n_features=8, random_state=0)
SITES = [X[Y != 2], X[Y != 0], X[Y != 1]]
TRUTH = [Y[Y != 2], Y[Y != 0], Y[Y != 1]]


def quick(**options: Any) -> fedkin.FedCRef:
    return fedkin.FedCRef(**{**QUICK, **options})


@pytest.fixture(scope="module")
def fitted() -> fedkin.FedCRef:
    return quick().fit(SITES)


SINGLE = f"fit takes {COLLECTIONS}; got a single table."


@pytest.mark.parametrize(
    ("clients", "sentence"),
    [
        (X, SINGLE),
        (X.tolist(), SINGLE),
        (pd.DataFrame(X), SINGLE.replace("table.", "DataFrame; table.groupby('hospital') divides it by a column.")),
        (torch.from_numpy(X), SINGLE),
        ([X, Y], SINGLE),
        (None, SINGLE.replace("a single table", "NoneType")),
        ([], "The list of clients is empty; at least one is needed."),
        ([X, X[:, :3]], "Client 1 has 3 features where others have 8 features; all clients need the same."),
        ([X, X[:0]], "Client 1 is empty (shape (0, 8)); every client needs at least one sample and one feature."),
        ([X, X * np.nan], "Client 1 has missing or infinite values in 72 of 72 samples; all must be finite float32."),
        ([X, [[1, 2], [3]]], "Client 1 is no array: its rows differ in length or type."),
        (
            [X, np.full((2, 8), "a")],
            "Client 1 holds values of type <U1, but all must be real numbers. A table with texts or dates is given "
            "as a DataFrame.",
        ),
    ],
)
def test_clients_that_cannot_be_used_are_refused(clients: Any, sentence: str) -> None:
    with pytest.raises(FedkinError) as raised:
        quick().fit(clients)
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (TRUTH[:2], "initial_labels has 2 arrays for 3 clients; give one for each."),
        ([*TRUTH[:2], [0, 1]], "initial_labels[2] is int64 of shape (2,); client 2 needs 48 integers."),
        ([*TRUTH[:2], TRUTH[2] / 2], "initial_labels[2] is float64 of shape (48,); client 2 needs 48 integers."),
        ([TRUTH[0] - 1, *TRUTH[1:]], "initial_labels[0] holds -1; a sample's cluster is 0 or more."),
    ],
)
def test_labels_that_cannot_be_used_are_refused(labels: Any, sentence: str) -> None:
    with pytest.raises(FedkinError) as raised:
        quick(initial="auto").fit(SITES, initial_labels=labels)
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        (X[:, :5], "The samples have shape (5,), but the model was made for (8,)."),
        ([X, X[:, :5]], "The samples have shape (5,), but the model was made for (8,)."),
        (X[0], "The data to predict has shape (8,), but samples need (n, features) or (n, channels, height, width)."),
        ([X, X * np.inf], "Client 1 has missing or infinite values in 72 of 72 samples; all must be finite float32."),
        ([], "The data to predict has shape (0,), but samples need (n, features) or (n, channels, height, width)."),
    ],
)
def test_samples_that_cannot_be_used_are_refused(new: Any, sentence: str, fitted: fedkin.FedCRef) -> None:
    with pytest.raises(FedkinError) as raised:
        fitted.predict(new)
    assert str(raised.value) == sentence
