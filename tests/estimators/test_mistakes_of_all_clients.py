"""The same mistake of several clients is said once, with its cure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

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


def test_an_error_on_the_number_of_classes_names_those_found() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    labels = Y.copy()
    labels[5] = -100
    with pytest.raises(FedkinError) as error:
        fedkin.FedAvg(rounds=1, module=net).fit(parts(X[..., 0], labels))
    assert str(error.value) == (
        "Model 'Sequential' turns two samples of shape (1, 8, 8) into shape (2, 3); it must be logits of shape (2, 4). "
        "The labels of all clients have 4 classes: -100, 0, 1, 2."
    )


def test_a_module_with_parameters_of_its_own_is_called_so() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

    with pytest.raises(FedkinError, match=r"^The module given \(Own\) has parameters of its own but no method reset_"):
        fedkin.FedAvg(rounds=1, module=Own()).fit(parts(X[..., 0], Y))


def test_early_stopping_knows_that_validation_is_one_data_set() -> None:
    model = fedkin.FedAvg(rounds=1, random_state=0)
    with pytest.raises(FedkinError, match="is one data set for all; give it by client, or monitor 'validation_global_"):
        model.fit(parts(X[..., 0], Y), validation=(X[..., 0], Y), callbacks=[fedkin.EarlyStopping()])


@pytest.mark.parametrize(
    ("methods", "sentence"),
    [
        ([fedkin.IFCA], "methods has the class IFCA, and it takes names; give 'ifca'."),
        (
            [fedkin.IFCA(n_clusters=2)],
            "methods has an object of type IFCA, and it takes names; give 'ifca', and its options as settings.",
        ),
        (fedkin.FedAvg, "methods has the class FedAvg, and it takes names; give 'fedavg'."),
        ([dict], "methods has the class dict, and it takes names; give 'package.module:Class'."),
    ],
)
def test_compare_names_the_method_of_a_class(methods: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(FedkinError) as error:
        fedkin.compare(parts(X[..., 0], Y), methods=methods, out=tmp_path / "out")
    assert str(error.value) == sentence
