"""Arrays of any kind, and samples that are too many for memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

import fedkin
from fedkin.core.errors import FedkinError
from fedkin.data.sources import read_file as read_npz
from fedkin.data.tables import as_tensor


@pytest.mark.parametrize(
    "value",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]], dtype=">i8"),
        np.array([[1, 2], [3, 4]], dtype=np.uint8),
        np.array([[3.0, 4.0], [1.0, 2.0]])[::-1],
        torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.bfloat16, requires_grad=True),
        [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])],
    ],
)
def test_tables_of_any_kind_become_float32(value):
    x = as_tensor(value, "Client 0")
    assert x.dtype == torch.float32
    assert not x.requires_grad
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_images_get_a_channel_and_bytes_become_fractions():
    grey = np.full((3, 4, 5), 51, dtype=np.uint8)
    x = as_tensor(grey, "Client 0")
    assert x.shape == (3, 1, 4, 5)
    assert torch.allclose(x, torch.tensor(0.2))
    assert as_tensor(np.full((3, 2, 4, 5), 7.0), "Client 0").amax() == 7


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1.0, 2.0], r"shape \(2,\), but samples need \(n, features\)"),
        (np.zeros((0, 3)), "with at least one of each"),
        (pd.Series([1.0]), "Series that is no array"),
        (np.zeros((2, 8, 8, 3)), r"shape \(2, 8, 8, 3\), but samples need"),
        ([[1.0, np.nan], [2.0, 3.0]], "missing or infinite values in 1 of 2"),
        ([[1e30]], "in another unit"),
        ([[1, "a"], [2, None]], "give a table as a DataFrame"),
        ([[1.0, 2.0], [3.0]], "rows of one length"),
    ],
)
def test_samples_that_cannot_be_used_are_refused(value, words):
    with pytest.raises(FedkinError, match=f"^Client 3 .*{words}"):
        as_tensor(value, "Client 3")


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_npz_with_samples_and_labels(tmp_path):
    path = save(tmp_path / "a.npz", x=np.full((2, 4, 4), 255, np.uint8), other=np.zeros((2, 2)), y=np.array(["b", "a"]))
    dataset = read_npz(path)
    assert (dataset.name, dataset.x.shape, float(dataset.x.amin())) == ("a.npz", (2, 1, 4, 4), 1)
    assert (dataset.y.tolist(), dataset.classes) == ([1, 0], ["a", "b"])


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"a": np.ones((2, 2)), "b": np.ones((2, 2))}, "name the samples' array 'x'"),
        ({"x": np.ones((2, 2)), "y": np.arange(3)}, "2 samples, but 3 labels"),
        ({"x": np.ones((2, 2)), "y": np.eye(2)}, "one value per sample"),
    ],
)
def test_npz_that_cannot_be_used_is_refused(tmp_path, arrays, words):
    with pytest.raises(FedkinError, match=words):
        read_npz(save(tmp_path / "a.npz", **arrays))


def test_npz_is_never_unpickled(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.array([[{}]], dtype=object))
    with pytest.raises(FedkinError, match=r"cannot be read as \.npz; it must hold plain"):
        read_npz(path)


@pytest.mark.parametrize("far", [1e8, 1.7e9, 1e12])
def test_numbers_far_from_zero_are_centred_before_they_are_float32(far: float) -> None:
    rng = np.random.default_rng(0)
    truth = [rng.integers(0, 3, 60) for _ in range(3)]
    clients = [rng.normal(size=(60, 2)) + y[:, None] * 9 + far for y in truth]
    model = fedkin.KFed(n_clusters=3, random_state=0).fit(clients)
    assert adjusted_rand_score(np.concatenate(truth), np.concatenate(model.labels_)) == 1
    assert all((model.predict(x) == labels).all() for x, labels in zip(clients, model.labels_, strict=True))
    with pytest.raises(FedkinError, match="so far from zero"):
        fedkin.KFed(n_clusters=3, scaling="none").fit(clients)
