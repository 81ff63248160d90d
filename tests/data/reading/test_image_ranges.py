"""Tests of images whose bytes were divided by 255 beside others whose were not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import fedkin
from fedkin.core import FedkinError
from fedkin.data.preparation import Preparation
from fedkin.data.reading.client_files import load_clients
from fedkin.data.reading.image_ranges import as_in_fit, mixed_images

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
    with pytest.raises(
        FedkinError, match=r"^Clients 0 and 1 have images of whole numbers up to 255 where those of "
    ) as error:
        fedkin.FedAvg(**MODEL).fit(given)
    assert "clients 2 and 3 are in [0, 1]" in str(error.value)
    assert "x.astype('uint8')" in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_files_of_two_types_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X[:40].astype(np.float32), y=Y[:40])
    np.savez(tmp_path / "b.npz", x=X[40:], y=Y[40:])
    with pytest.raises(FedkinError, match=r"a\.npz' has images of whole numbers up to 255 where .*b\.npz' are"):
        load_clients(tmp_path)


def test_images_in_one_form_are_taken() -> None:
    unit = torch.tensor(X).float()[:, None] / 255
    assert not mixed_images({"Client 0": unit, "Client 1": unit.round()})
    assert not mixed_images({"Client 0": unit * 255, "Client 1": torch.zeros(3, 1, 6, 6), "Client 2": unit * 3 - 1})
    assert not mixed_images({"Client 0": unit * 255, "Client 1": unit[:0]})


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


def test_black_and_white_images_stay_as_they_are_among_few_greys() -> None:
    x = torch.tensor([[[[0.0, 1.0]]]])
    assert torch.equal(as_in_fit(x, (0.0, 16.0), "The data"), x)
    assert torch.equal(as_in_fit(x, (0.0, 260.0), "The data"), x * 255)
    assert torch.equal(as_in_fit(x * 9, (-1.0, 1.0), "The data"), x * 9)


def test_lists_of_bytes_are_images() -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"image": list(X), "label": Y})
    model = fedkin.FedAvg(**MODEL).fit(clients())
    assert model.score(rows, client=0) == model.score(X, Y, client=0)
    flat = datasets.Dataset.from_dict({"x": list(X.reshape(80, -1)), "label": Y})
    found = fedkin.KMeans(n_clusters=2, random_state=0).fit([flat])
    assert float(found.preparation_.reach[1].max()) == 260.0
