"""Histories, figures, metrics and warnings of a fit."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

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
    options = [f"data.source={folder / 'clients'}", "simulation.test_fraction=0.25", "method.n_clusters=2", *QUICK]
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


@pytest.fixture(scope="module")
def wines():
    wine = load_wine(as_frame=True)
    frame = wine.data.assign(town=np.random.default_rng(0).choice(["Bonn", "Ulm"], len(wine.data)))
    site = (wine.target + frame.index // 2 % 2) % 3  # two of the three kinds at each
    return {name: frame[site == at].reset_index(drop=True) for at, name in enumerate(("a", "b", "c"))}


@pytest.fixture(scope="module")
def model(wines):
    return fedkin.FFCM(n_clusters=3, random_state=0).fit(wines)


def test_describe_has_a_row_per_cluster_in_original_units(model, wines):
    frame = model.describe()
    assert frame.index.tolist() == [0, 1, 2]
    assert frame.columns[:2].tolist() == ["samples", "sentence"]
    assert 0.9 < frame["samples"].sum() / sum(map(len, wines.values())) <= 1  # a few stay at their clients
    rows = pd.concat(wines.values())
    labels = np.concatenate(model.labels_)
    for cluster in range(3):
        assert frame.loc[cluster, "proline"] == pytest.approx(rows["proline"][labels == cluster].mean(), rel=0.05)
    assert frame.columns[-1] == "town"
    assert frame["town"].isin(["Bonn", "Ulm"]).all()
    assert frame.attrs["effects"]["flavanoids"] > 0.6 > 0.05 > frame.attrs["effects"]["town"]
    assert all(text.startswith(f"Cluster {cluster} (") for cluster, text in frame["sentence"].items())


def test_new_rows_may_be_files(model, wines, tmp_path):
    own = wines["a"]
    own.to_csv(tmp_path / "new.csv", index=False)
    assert (model.predict(str(tmp_path / "new.csv")) == model.predict(own)).all()
    both = model.predict([tmp_path / "new.csv", tmp_path / "new.csv"])
    assert [len(labels) for labels in both] == [len(own)] * 2
    with pytest.raises(ValueError, match=r"nowhere\.csv' does not exist"):
        model.predict(str(tmp_path / "nowhere.csv"))
