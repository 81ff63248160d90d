"""Whatever form clients have, every entrance takes it, and what comes out has the clients' names."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import fedkin
from fedkin.core import FedkinError
from fedkin.core.runner import Callback

RNG = np.random.default_rng(0)
NAMES = ["north", "south", "east", "west"]
CENTRES = np.array([[0.0, 0, 4], [4, 0, 0], [0, 4, 0]])
Y = {name: RNG.integers(0, 3, 60) for name in NAMES}
X = {name: (CENTRES[y] + RNG.normal(size=(60, 3))).astype(np.float32) for name, y in Y.items()}
PAIRS = {name: (X[name], Y[name] if name in NAMES[:2] else 2 - Y[name]) for name in NAMES}
TRAIN = {name: (x[:40], y[:40]) for name, (x, y) in PAIRS.items()}
TEST = {name: (x[40:], y[40:]) for name, (x, y) in PAIRS.items()}
DATASETS = {name: TensorDataset(torch.from_numpy(x), torch.from_numpy(y)) for name, (x, y) in PAIRS.items()}
OPTIONS: dict[str, Any] = {
    "n_clusters": 2, "rounds": 3, "local_steps": 8, "learning_rate": 0.3, "start": "kmeans", "random_state": 0,
    "scaling": "none",
}  # fmt: skip


def ifca(**options: Any) -> fedkin.IFCA:
    return fedkin.IFCA(**OPTIONS | options)


@pytest.fixture(scope="module")
def model() -> fedkin.IFCA:
    return ifca().fit(PAIRS)


@pytest.fixture(scope="module")
def judged() -> fedkin.IFCA:
    return ifca().fit(TRAIN, eval=TEST, validation=list(TEST.values()))


@pytest.mark.parametrize(
    ("clients", "y"),
    [
        (list(PAIRS.values()), None),
        (X, {name: y for name, (_, y) in PAIRS.items()}),
        (list(X.values()), [y for _, y in PAIRS.values()]),
        (DATASETS, None),
        ({name: DataLoader(data, batch_size=7, shuffle=True) for name, data in DATASETS.items()}, None),
    ],
)
def test_the_form_of_clients_changes_nothing(clients: Any, y: Any, model: fedkin.IFCA) -> None:
    other = ifca().fit(clients, y)
    assert other.client_labels_.tolist() == model.client_labels_.tolist()
    assert torch.equal(other.result_["models"], model.result_["models"])


def test_clients_keep_their_names(model: fedkin.IFCA) -> None:
    assert model.clusters_ == dict(zip(NAMES, model.client_labels_.tolist(), strict=True))
    scores = [model.score(*PAIRS[name], client=name) for name in NAMES]
    assert model.score(PAIRS) == model.score(list(PAIRS.values())) == pytest.approx(np.mean(scores))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda m: m.score(X["east"], client=2), "The data given has no labels, which are needed; give them"),
        (lambda m: m.score([PAIRS["north"]] * 3), "score lists 3 clients where fit has 4; give as many, or a dict by"),
        (
            lambda m: ifca().fit(TRAIN, eval={"east": (X["east"][:, :2], Y["east"])}),
            "east in eval does not fit: The samples have shape (2,), but the model was made for (3,).",
        ),
        (lambda m: ifca().fit(TRAIN, eval={"nort": TEST["north"]}), "Unknown client in eval 'nort'; did you mean"),
        (lambda m: ifca().fit(TRAIN, eval={"north": (X["north"], Y["north"] + 7)}), "north in eval has the label "),
        (lambda m: ifca().fit(TRAIN, eval={"north": X["north"]}), "north in eval has no labels, which are needed"),
        (lambda m: ifca().fit(TRAIN, callbacks=[print]), "A callback is "),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, sentence: str, model: fedkin.IFCA) -> None:
    with pytest.raises(FedkinError) as raised:
        call(model)
    assert str(raised.value).startswith(sentence)


def test_records_have_what_each_clients_model_scores_on_its_own_samples(judged: fedkin.IFCA) -> None:
    last = judged.records_[-1]
    assert last["client_accuracy"] == pytest.approx([judged.score(*TEST[name], client=name) for name in NAMES])
    assert last["personal_accuracy"] == pytest.approx(judged.score(TEST))
    assert last["validation_client_accuracy"] == last["client_accuracy"]
    titles = [figure.title for part in judged.plot("rounds").view.parts for figure in part.figures]
    assert "Accuracy on each client's own test set" in titles
    assert {"validation_global_accuracy", "validation_personal_f1", "loss", "sent"} <= last.keys()


class Counting(Callback):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def begin(self) -> None:
        self.calls.append("begin")

    def step(self, line: Any, timing: Any) -> None:
        self.calls.append(f"step {line['step']}")

    def end(self, status: str) -> None:
        self.calls.append(status)


def test_callbacks_follow_a_fit() -> None:
    counting = Counting()
    fedkin.FedAvg(rounds=2, random_state=0).fit(TRAIN, callbacks=[counting])
    assert counting.calls == ["begin", "step 1", "step 2", "finished"]
    fedkin.FedAvg(rounds=1, random_state=0).fit(TRAIN, callbacks=None)
    fedkin.KFed(n_clusters=3, random_state=0).fit(X, callbacks=[counting])
    assert counting.calls[4:] == ["begin", "step 1", "finished"]


def test_a_fit_stops_early() -> None:
    stop = fedkin.EarlyStopping(patience=2)
    model = fedkin.FedAvg(rounds=50, random_state=0).fit(TRAIN, validation=TEST, callbacks=[stop])
    assert len(model.records_) == stop.best_step + 2 < 50
    with pytest.raises(FedkinError, match="Give fit validation"):
        fedkin.FedAvg(rounds=2, random_state=0).fit(TRAIN, callbacks=[fedkin.EarlyStopping()])
