"""Tests of images whose bytes were divided by 255 beside others whose were not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fedkin
from fedkin.core import FedkinError
from fedkin.data.preparation import Preparation

RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (80, 6, 6)).astype(np.uint8)
Y = RNG.integers(0, 2, 80)
MODEL = {"rounds": 1, "random_state": 0}


def clients(dtype: object = np.uint8) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(X[i::4].astype(dtype), Y[i::4]) for i in range(4)]


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_clients_some_of_whom_have_bytes_and_some_numbers_up_to_255_are_refused(dtype: object) -> None:
    given = clients()
    given[:2] = clients(dtype)[:2]
    with pytest.raises(FedkinError, match=r"^Clients 0 and 1 have images of whole numbers up to 255 where") as error:
        fedkin.FedAvg(**MODEL).fit(given)
    assert "clients 2 and 3 are in [0, 1]" in str(error.value)
    assert "x.astype('uint8')" in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("scaling", ["auto", "none"])
def test_new_bytes_are_taken_as_the_numbers_of_fit(scaling: str) -> None:
    model = fedkin.FedAvg(**MODEL, scaling=scaling).fit(clients(np.float32))
    for new in (X, torch.tensor(X), X.astype(np.float32) / 255, X.astype(np.int64)):
        assert torch.equal(model.preparation_.apply(new), model.preparation_.apply(X.astype(np.float32)))
    assert model.score(X, Y, client=0) == model.score(X.astype(np.float32), Y, client=0)
    again = Preparation.from_tree(
        (model.preparation_.for_clients() if scaling == "auto" else model.preparation_).tree()
    )
    assert torch.equal(again.apply(X), model.preparation_.apply(X.astype(np.float32)))


def test_new_numbers_up_to_255_are_refused_after_bytes() -> None:
    model = fedkin.FedAvg(**MODEL).fit(clients())
    with pytest.raises(FedkinError, match=r"has images of whole numbers up to 255 where those of fit were in \[0, 1\]"):
        model.predict(X.astype(np.float32), client=0)
    again = Preparation.from_tree(model.preparation_.for_clients().tree())
    with pytest.raises(FedkinError, match="up to 255"):
        again.apply(X.astype(np.int64))
    assert float(again.apply(X).max()) == 1.0
    with pytest.raises(FedkinError, match="up to 255"):
        fedkin.FedAvg(**MODEL).fit(clients(), eval=clients(np.float32))
