"""Tests of notes on arrays in another unit than those of other clients, or than those of fit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import fedkin
from fedkin.data.preparing.array_ranges import note_on_new_arrays, notes_on_arrays


def test_clients_whose_arrays_are_many_times_as_large_are_named() -> None:
    def ends(low: float, high: float, outlier: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tensor([0.0, low, low]).double(), torch.tensor([outlier, high, high]).double()

    (note,) = notes_on_arrays({"a": ends(0, 1), "b": ends(-255, 2), "c": ends(0, 0.9)})
    assert note.startswith("The largest values at client b are about 255, and those of all others about 1;")
    (note,) = notes_on_arrays({"a": ends(0, 255), "b": ends(0, 1), "c": ends(0, 200)})
    assert note.startswith("The largest values at client b are about 1, and those of all others about 255;")
    assert "those of the other client about 1;" in notes_on_arrays({"a": ends(0, 255), "b": ends(0, 1)})[0]
    assert not notes_on_arrays({"a": ends(0, 25), "b": ends(0, 1), "c": ends(0, 0)})
    assert not notes_on_arrays({"a": ends(0, 2, outlier=1e6), "b": ends(0, 1)})
    assert not notes_on_arrays({"a": ends(0, 25)})


def test_new_arrays_far_beyond_or_within_those_of_fit_are_noted() -> None:
    reach = torch.tensor([[0.0, -3.0, 0.0], [1.0, 2.0, 3.0]]).double()
    x = torch.ones(6, 3)
    assert not note_on_new_arrays(x, reach, "The data")
    (note,) = note_on_new_arrays(x * 90, reach, "The data")
    assert note.startswith("The largest values of the data are about 90 where those of fit were about 3;")
    assert note_on_new_arrays(x / 90, reach, "'a.npz'")
    assert not note_on_new_arrays(x[:2] / 90, reach, "The data")
    assert not note_on_new_arrays(x * 0, reach, "The data")


def test_fit_and_predict_warn_of_another_unit() -> None:
    x = np.random.default_rng(0).integers(0, 256, (80, 6)).astype(np.float32)
    with pytest.warns(
        UserWarning, match="The largest values at client 1 are about .*, and those of all others about 2"
    ):
        fedkin.KMeans(n_clusters=2, random_state=0).fit([x[::3], x[1::3] / 255, x[2::3]])
    model = fedkin.KMeans(n_clusters=2, random_state=0).fit([x[::2], x[1::2]])
    with pytest.warns(UserWarning, match="in another unit"):
        model.predict(x / 255)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(x)
