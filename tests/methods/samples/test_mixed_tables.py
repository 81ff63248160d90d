"""Every method runs on tables as sites hold them: text, empty cells, ids, columns in another order."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import planted
from fedkin.core import Client
from fedkin.data.preparation import prepare
from fedkin.data.tables import frame_to_table
from fedkin.engines.local import LocalFederation
from fedkin.experiment import registry
from fedkin.experiment.config import checked_method
from methods.samples.small import SMALL

OF_CLIENTS: dict[str, dict[str, Any]] = {
    "embedding": {"module": "perceptron", "pretraining_rounds": 1},
    "hierarchical": {"clustering_round": 1},
    "ladd": {"module": "perceptron", "n_clusters": 2},
}
FEDCREF = {"initial": "kmeans", "n_clusters": 2, "max_iterations": 1, "rounds": 1, "local_epochs": 1, "min_steps": 5}
MARKED = "ladd"
"""It describes clients by the style of images, which tables do not have."""


def frames() -> list[pd.DataFrame]:
    """Three wards with the same columns in different orders; two kinds of patients."""
    rng = np.random.default_rng(0)
    wards = []
    for ward in range(3):
        kind = rng.integers(0, 2, 60)
        frame = pd.DataFrame(
            {
                "patient_id": [f"W{ward}-{i:03}" for i in range(60)],
                "age": rng.normal(30 + 40 * kind, 3),
                "pressure": rng.normal(120 + 50 * kind, 5),
                "smokes": np.where(kind == rng.integers(0, 2, 60), "yes", "no"),
                "complaint": np.array(["cough", "pain", "fever"])[(kind + rng.integers(0, 2, 60)) % 3],
                "admitted": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, 60), "D"),
            }
        )
        frame.loc[rng.integers(0, 60, 6), "pressure"] = np.nan
        frame.loc[rng.integers(0, 60, 6), "complaint"] = None
        wards.append(frame[rng.permutation(frame.columns)])
    return wards


def federation(labelled: bool) -> LocalFederation:
    clients = []
    for i, frame in enumerate(frames()):
        table = frame_to_table(frame, f"Client {i}")
        y = (torch.arange(len(table)) + i) % 2 if labelled else None
        clients.append(Client(i, table.values, y, table=table))
    fed = LocalFederation(clients, workers=1)
    assert prepare(fed).id == "patient_id"
    return fed


def finished(name: str, settings: dict[str, Any], fed: LocalFederation) -> dict[str, Any]:
    method = checked_method(registry.resolve("method", name), settings)
    state = method.init(fed)
    while not state.finished:
        state, _ = method.step(fed, state)
    return method.result(state)


@pytest.mark.parametrize("name", [name for name, one in registry.METHODS.items() if "methods.samples." in one.target])
def test_samples_are_clustered(name: str) -> None:
    fed = federation(labelled=False)
    found = finished(name, SMALL.get(name, FEDCREF), fed)
    for client in fed.clients.values():
        clusters = client.state["clusters"]
        assert clusters.shape == (60,)
        assert 0 <= int(clusters.min()) <= int(clusters.max()) < found["n_clusters"]


@pytest.mark.parametrize(
    "name", [name for name, one in registry.METHODS.items() if "methods.clients." in one.target and name != MARKED]
)
def test_clients_are_clustered(name: str) -> None:
    fed = federation(labelled=True)
    settings = {**planted.LEARNING, "rounds": 2, **OF_CLIENTS.get(name, {})}
    if name == "gradient-loss":
        settings.pop("local_steps")
    found = finished(name, settings, fed)
    assert found["labels"].shape == (3,)
    assert bool(found["models"].isfinite().all())
