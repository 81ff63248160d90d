"""Records of a run's folder as a tidy table, as estimators have it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedkin
from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute

QUICK = ["method.rounds=2", "method.module=perceptron", "evaluation.map=none"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three clients with names, of which two call classes alike."""
    folder, rng = tmp_path_factory.mktemp("run"), np.random.default_rng(0)
    (folder / "clients").mkdir()
    for name in ("north", "south", "west"):
        y = rng.integers(0, 2, 40)
        np.savez(folder / "clients" / f"{name}.npz", x=rng.normal(size=(40, 3)) + 4 * y[:, None], y=y)
    options = [f"data.source={folder / 'clients'}", "scenario.test_fraction=0.25", "method.n_clusters=2", *QUICK]
    execute(load_config("ifca", options), folder / "run")
    return folder / "run"


def value(history: pd.DataFrame, **where: object) -> float:
    for column, wanted in where.items():
        own = history[column]
        history = history[own.isna() if wanted is None else own == wanted]
    (found,) = history["value"]
    return float(found)


def test_records_are_a_table_like_that_of_an_estimator(run: Path) -> None:
    history = fedkin.load_history(str(run))
    records = pd.read_json(run / "records.jsonl", lines=True)
    clients = [(np.eye(4), [0, 1, 0, 1])] * 2
    fitted = fedkin.FedAvg(rounds=1, module="perceptron", random_state=0).fit(clients)
    assert list(history.columns) == list(fitted.metrics_.columns)
    assert history.dtypes.equals(fitted.metrics_.dtypes)
    assert set(history["round"]) == {1, 2}
    assert set(history["client"].dropna()) == {"north", "south", "west"}
    for at, name in enumerate(["north", "south", "west"]):
        accuracy = value(history, round=2, client=name, metric="accuracy", split="test")
        assert accuracy == records["metrics"][1]["client_accuracy"][at]
    mean = value(history, round=2, client=None, cluster=None, metric="accuracy")
    assert mean == records["metrics"][1]["personal_accuracy"]
    assert value(history, round=1, metric="sent") == records["sent"][0]
    assert value(history, round=2, metric="seconds") >= 0


def test_a_run_that_clusters_samples_has_its_scores(tmp_path: Path) -> None:
    execute(load_config("kfed", ["data.source=iris", "method.n_clusters=3", "evaluation.map=none"]), tmp_path / "run")
    history = fedkin.load_history(tmp_path / "run")
    assert 0 < value(history, metric="nmi") <= 1
    assert history["client"].isna().all()
