"""The same mistake of several clients is said once, with its cure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import fedkin
from fedkin.core import FedkinError

RNG = np.random.default_rng(0)
X = RNG.random((80, 8, 8, 1)).astype(np.float32)
Y = RNG.integers(0, 3, 80)
LAST = (
    "Clients 0 to 3 have shape (n, 8, 8, 1), with the channels last; give x.transpose(0, 3, 1, 2), for samples need "
    "(n, features) or (n, channels, height, width)."
)
ONE_HOT = "have labels of shape (n, 3); each sample needs one class, as y.argmax(1) has of one-hot labels."
PAIRS = (
    "Clients 0 to 3 hold pairs (x, y), one for each sample; give a torch Dataset of them, or one pair of all "
    "samples and all labels."
)


def parts(x: Any, y: Any) -> list[tuple[Any, Any]]:
    return [(x[i::4], y[i::4]) for i in range(4)]


@pytest.mark.parametrize(
    ("clients", "sentence"),
    [
        (parts(X, Y), LAST),
        (parts(torch.tensor(X), Y), LAST.replace("transpose", "permute")),
        (parts(X[..., 0], np.eye(3)[Y]), f"Clients 0 to 3 {ONE_HOT}"),
        (dict(zip("abcd", parts(X[..., 0], np.eye(3)[Y]), strict=True)), f"a, b, c, d {ONE_HOT}"),
        (
            parts(X[..., 0], np.full(80, np.nan)),
            "Clients 0 to 3 have the label nan; they should be integers, booleans or strings, none missing.",
        ),
        ([list(zip(*own, strict=True)) for own in parts(X[:, None, ..., 0], Y)], PAIRS),
        (
            [([[1, 2], [3]], [0, 1]), ([[1, 2], [3]], [0, 1]), (np.ones((2, 2)), [0, 1])],
            "Clients 0 and 1 are no array: their rows differ in length or type.",
        ),
    ],
)
def test_a_mistake_of_all_clients_is_one_sentence(clients: Any, sentence: str) -> None:
    with pytest.raises(FedkinError) as error:
        fedkin.FedAvg(rounds=1).fit(clients)
    assert str(error.value) == sentence
