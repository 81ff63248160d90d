"""Metrics of a user's own, measured at every client with its cluster's model."""

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, cohen_kappa_score

import fedkin
from fedkin.core import FedkinError

RNG = np.random.default_rng(0)
OPTIONS: dict[str, Any] = {"rounds": 2, "local_epochs": 1, "random_state": 0}


def client(rows: int, swapped: bool = False) -> tuple[np.ndarray, np.ndarray]:
    x = RNG.normal(size=(rows, 4)).astype(np.float32)
    kind = (x[:, 0] > 0) ^ swapped
    return x, np.where(kind, "ill", "well")


CLIENTS = {"ann": client(40), "bob": client(30, True), "cy": client(20)}
TESTS = {"ann": client(20), "bob": client(30, True)}


@pytest.mark.parametrize("estimator", [fedkin.IFCA, fedkin.FedRC])
def test_a_metric_is_a_row_of_every_client_cluster_and_round_in_the_users_own_labels(estimator: Any) -> None:
    """One that is the accuracy again has its numbers; FedRC's clients predict with all models together."""
    seen: list[Any] = []

    def again(true: np.ndarray, predicted: np.ndarray) -> float:
        seen.extend([*true, *predicted])
        return float(accuracy_score(true, predicted))

    model = estimator(n_clusters=2, **OPTIONS).fit(CLIENTS, eval=TESTS, metrics={"again": again})
    rows = model.metrics_[model.metrics_["split"] == "test"]
    keys = ["round", "client", "cluster", "value"]
    assert set(seen) <= {"ill", "well"}
    measured = rows[rows["metric"] == "again"][keys].reset_index(drop=True)
    assert measured.equals(rows[rows["metric"] == "accuracy"][keys].reset_index(drop=True))
    assert set(measured["client"].dropna()) == {"ann", "bob"}
    assert set(measured["round"]) == set(rows["round"])


def test_callbacks_stop_by_a_metric() -> None:
    records: list[dict[str, Any]] = []
    stop = fedkin.EarlyStopping(monitor="validation_kappa", patience=1, min_delta=9.0)
    options = {**OPTIONS, "rounds": 9}
    model = fedkin.FedAvg(**options).fit(
        CLIENTS, validation=0.3, metrics={"kappa": cohen_kappa_score}, callbacks=[stop, records.append]
    )
    assert len(model.records_) == 2
    last = model.metrics_[(model.metrics_["metric"] == "kappa") & model.metrics_["cluster"].isna()].iloc[-1]
    assert (last["split"], last["value"]) == ("validation", records[-1]["metrics"]["validation_kappa"])


@pytest.mark.parametrize(
    ("metrics", "more", "sentence"),
    [
        ({"k": cohen_kappa_score}, {}, "metrics are measured on samples that are held out; give fit eval or valid"),
        ([cohen_kappa_score] * 2, {"eval": TESTS}, "metrics has two functions of one name; give them by other names"),
        ([lambda true, predicted: 0], {"eval": TESTS}, "metrics takes functions of true and predicted labels by name"),
        ([accuracy_score, "k"], {"eval": TESTS}, "metrics takes functions of true and predicted labels by name"),
        (["k"], {"eval": TESTS}, "metrics takes functions of true and predicted labels by name"),
        ({"k": "kappa"}, {"eval": TESTS}, "metrics takes functions of true and predicted labels by name"),
        ({"f1": cohen_kappa_score}, {"eval": TESTS}, "metrics has 'f1', which is measured anyway; give it another"),
        ({"k": lambda true: 0}, {"eval": TESTS}, "metrics['k'] fails at client 'ann': TypeError: "),
        ({"k": lambda true, predicted: None}, {"eval": TESTS}, "metrics['k'] gives None at client 'ann'; it should "),
        ({"k": lambda true, predicted: float("nan")}, {"eval": TESTS}, "metrics['k'] gives nan at client 'ann'; it s"),
    ],
)
def test_what_is_no_metric_is_refused_in_a_sentence(metrics: Any, more: Any, sentence: str) -> None:
    with pytest.raises(FedkinError) as raised:
        fedkin.FedAvg(**OPTIONS).fit(CLIENTS, metrics=metrics, **more)
    assert str(raised.value).startswith(sentence)
    assert "\n" not in str(raised.value)
