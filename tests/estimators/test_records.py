"""Histories, figures, metrics and warnings of a fit."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.metrics import accuracy_score, cohen_kappa_score

import fedkin
from fedkin.core import FedkinError
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


RNG = np.random.default_rng(0)


OPTIONS: dict[str, Any] = {"rounds": 2, "local_epochs": 1, "random_state": 0}


def client(rows: int, swapped: bool = False) -> tuple[np.ndarray, np.ndarray]:
    x = RNG.normal(size=(rows, 4)).astype(np.float32)
    kind = (x[:, 0] > 0) ^ swapped
    return x, np.where(kind, "ill", "well")


OWN_METRICS_CLIENTS = {"ann": client(40), "bob": client(30, True), "cy": client(20)}


TESTS = {"ann": client(20), "bob": client(30, True)}


@pytest.mark.parametrize("estimator", [fedkin.IFCA, fedkin.FedRC])
def test_a_metric_is_a_row_of_every_client_cluster_and_round_in_the_users_own_labels(estimator: Any) -> None:
    """One that is the accuracy again has its numbers; FedRC's clients predict with all models together."""
    seen: list[Any] = []

    def again(true: np.ndarray, predicted: np.ndarray) -> float:
        seen.extend([*true, *predicted])
        return float(accuracy_score(true, predicted))

    model = estimator(n_clusters=2, **OPTIONS).fit(OWN_METRICS_CLIENTS, eval=TESTS, metrics={"again": again})
    rows = model.metrics_[model.metrics_["split"] == "test"]
    keys = ["round", "client", "cluster", "value"]
    assert set(seen) <= {"ill", "well"}
    measured = rows[rows["metric"] == "again"][keys].reset_index(drop=True)
    assert measured.equals(rows[rows["metric"] == "accuracy"][keys].reset_index(drop=True))
    assert set(measured["client"].dropna()) == {"ann", "bob"}
    assert set(measured["round"]) == set(rows["round"])


@pytest.mark.parametrize(
    ("metrics", "more", "sentence"),
    [
        ({"k": cohen_kappa_score}, {}, "metrics are measured on samples that are held out; give fit eval or valid"),
        ([lambda true, predicted: 0], {"eval": TESTS}, "metrics takes functions of true and predicted labels by name"),
        (["k"], {"eval": TESTS}, "metrics takes functions of true and predicted labels by name"),
        ({"f1": cohen_kappa_score}, {"eval": TESTS}, "metrics has 'f1', which is measured anyway; give it another"),
        ({"k": lambda true, predicted: None}, {"eval": TESTS}, "metrics['k'] gives no number at client 'ann': TypeE"),
    ],
)
def test_what_is_no_metric_is_refused_in_a_sentence(metrics: Any, more: Any, sentence: str) -> None:
    with pytest.raises(FedkinError) as raised:
        fedkin.FedAvg(**OPTIONS).fit(OWN_METRICS_CLIENTS, metrics=metrics, **more)
    assert str(raised.value).startswith(sentence)
    assert "\n" not in str(raised.value)


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
    with pytest.raises(ValueError, match=r"^Column 'proline' of the data to predict has 1 infinite values"):
        model.predict(own.head(1).assign(proline=np.inf))
