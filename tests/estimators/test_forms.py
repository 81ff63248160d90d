"""Whatever form clients have, every entrance takes it, and what comes out has the clients' names."""

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import fedkin
from fedkin.core import FedkinError
from fedkin.core.progress import Callback
from fedkin.estimators.clients import ByClient

RNG = np.random.default_rng(0)
NAMES = ["north", "south", "east", "west"]
CENTRES = np.array([[0.0, 0, 4], [4, 0, 0], [0, 4, 0]])
Y = {name: RNG.integers(0, 3, 60) for name in NAMES}
X = {name: (CENTRES[y] + RNG.normal(size=(60, 3))).astype(np.float32) for name, y in Y.items()}
PAIRS = {name: (X[name], Y[name] if name in NAMES[:2] else 2 - Y[name]) for name in NAMES}
TRAIN = {name: (x[:40], y[:40]) for name, (x, y) in PAIRS.items()}
TEST = {name: (x[40:], y[40:]) for name, (x, y) in PAIRS.items()}
FRAMES = {name: pd.DataFrame(x, columns=list("abc")).assign(kind=y) for name, (x, y) in PAIRS.items()}
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
    return ifca().fit(TRAIN, eval=TEST, validation=0.25)


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
    assert set(model.metrics_["client"].dropna()) == set(NAMES)
    labels = model.client_labels_
    for named in (labels, pickle.loads(pickle.dumps(labels)), copy.deepcopy(labels)):
        assert {name: int(named[name]) for name in NAMES} == model.clusters_
    with pytest.raises(FedkinError, match="Unknown client 'nort'; did you mean 'north'"):
        labels["nort"]
    assert repr(labels) == repr(np.array(labels.tolist()))
    predicted = model.predict(X)
    assert list(predicted) == NAMES
    assert np.array_equal(predicted["south"], model.predict(X["south"], client="south"))
    listed = model.predict(list(X.values()))
    assert np.array_equal(listed["east"], predicted["east"])
    assert np.array_equal(listed[2], predicted["east"])
    assert list(model.predict({"west": X["west"]})) == ["west"]
    assert model.predict_proba(X)["north"].shape == (60, 3)


def test_score_takes_what_fit_takes(model: fedkin.IFCA) -> None:
    each = [model.score(*PAIRS[name], client=name) for name in NAMES]
    assert min(each) > 0.7
    for given in (PAIRS, list(PAIRS.values()), DATASETS, {n: DataLoader(d) for n, d in DATASETS.items()}):
        assert model.score(given) == pytest.approx(np.mean(each))
    assert model.score(X, {name: y for name, (_, y) in PAIRS.items()}) == pytest.approx(np.mean(each))
    assert model.score(FRAMES, "kind") == pytest.approx(np.mean(each))
    assert model.score(DATASETS["east"], client="east") == each[2]
    of_frames = ifca().fit(FRAMES, "kind")
    own = of_frames.score(FRAMES["east"], client=2)
    assert own > 0.7
    assert of_frames.score(FRAMES["east"].drop(columns="kind"), PAIRS["east"][1], client=2) == own
    assert of_frames.score(FRAMES) == pytest.approx(np.mean([of_frames.score(FRAMES[n], client=n) for n in NAMES]))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda m: m.score(X["east"], client=2), "The data given has no labels to compare with; give them as y, or"),
        (lambda m: m.predict({"nort": X["north"]}), "Unknown client in x 'nort'; did you mean 'north'?"),
        (lambda m: m.predict([X["north"]] * 3), "x lists 3 clients where fit has 4; give as many, or a dict by name."),
        (lambda m: m.predict(X["north"], client="nort"), "Unknown client 'nort'; did you mean 'north'?"),
        (
            lambda m: ifca().fit(TRAIN, eval={"east": (X["east"][:, :2], Y["east"])}),
            "east in eval does not fit: the samples have shape (2,), but the model was made for (3,).",
        ),
        (lambda m: m.assign(X["east"]), "The data given has no labels, which a newcomer needs"),
        (lambda m: ifca().fit(TRAIN, eval={"nort": TEST["north"]}), "Unknown client in eval 'nort'; did you mean"),
        (lambda m: ifca().fit(TRAIN, eval={"north": X["north"]}), "north in eval has no labels, and eval is to be"),
        (lambda m: ifca().fit(TRAIN, eval={"north": (X["north"], Y["north"] + 7)}), "north in eval has the label "),
        (lambda m: ifca().fit(TRAIN, eval={"north": (X["north"], Y["north"][:5])}), "north in eval has 60 samples and"),
        (lambda m: ifca().fit(TRAIN, validation=1.5), "validation is 1.5; a fraction of every client's samples is"),
        (lambda m: ifca().fit(TRAIN, callbacks=[7]), "A callback is of type int; give instances of fedkin.Callback"),
        (lambda m: ifca().fit(TRAIN, callbacks=[Callback]), "A callback is the class Callback; give instances"),
        (lambda m: ifca().set_params(n_cluster=3), "IFCA has no parameter 'n_cluster'; did you mean 'n_clusters'?"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, sentence: str, model: fedkin.IFCA) -> None:
    with pytest.raises(FedkinError) as raised:
        call(model)
    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: fedkin.IFCA(callbacks=[]), "IFCA has no parameter 'callbacks'; it is an argument of fit."),
        (lambda: fedkin.IFCA(clients_per_round=3), "IFCA has no parameter 'clients_per_round'; did you mean 'partic"),
        (lambda: ifca().fit(TRAIN, groups="x"), "fit has no argument 'groups'; give clients as table.groupby("),
        (lambda: ifca().save("x"), "IFCA has no 'save'; pickle.dump(model, file) or joblib.dump(model, path) saves"),
        (lambda: fedkin.KFed().predict(X, client="north"), "predict has no argument 'client'; it takes X."),
        (lambda: fedkin.partition, "module 'fedkin' has no attribute 'partition'; fit takes a partitioner of flwr"),
        (lambda: type("Mine", (fedkin.Callback,), {"on_round_end": print}), "Mine.on_round_end would never be called"),
        (lambda: fedkin.KFed().fit([np.zeros(9), np.zeros(9)]), "fit takes clients in a list, in a dict by name, in a "
         "folder with one file each, or as a FederatedDataset with a partitioner; got a single table, or clients"),
    ],
)  # fmt: skip
def test_what_other_libraries_call_it_is_answered_with_what_it_is_called_here(wrong: Any, sentence: str) -> None:
    with pytest.raises((TypeError, AttributeError, FedkinError)) as raised:
        wrong()
    assert str(raised.value).startswith(sentence)


def test_the_history_is_the_tidy_table_and_records_are_kept_as_they_are(judged: fedkin.IFCA) -> None:
    assert judged.history_.equals(judged.metrics_)
    assert list(judged.history_) == ["round", "client", "cluster", "split", "metric", "value"]
    sent = judged.history_.query("metric == 'sent'")["value"].tolist()
    assert sent == [record["sent"] for record in judged.records_]
    assert judged.n_iter_ == len(judged.records_)
    twin = ifca().set_params(device=torch.device("cpu")).fit(TRAIN)
    assert twin.client_labels_.tolist() == judged.client_labels_.tolist()


def test_metrics_are_those_of_each_clients_model_on_its_own_samples(judged: fedkin.IFCA) -> None:
    metrics = judged.metrics_
    assert list(metrics.columns) == ["round", "client", "cluster", "split", "metric", "value"]
    last = metrics[(metrics["round"] == 3) & (metrics["split"] == "test") & (metrics["metric"] == "accuracy")]
    for name in NAMES:
        row = last[last["client"] == name].iloc[0]
        assert row["value"] == pytest.approx(judged.score(*TEST[name], client=name))
        assert row["cluster"] == judged.clusters_[name]
    whole = last[last["client"].isna() & last["cluster"].isna()]["value"].item()
    assert whole == pytest.approx(judged.score(TEST))
    of_clusters = last[last["client"].isna() & last["cluster"].notna()]
    assert sorted(of_clusters["cluster"]) == sorted(set(judged.clusters_.values()))
    assert {"global_accuracy", "f1"} <= set(metrics[metrics["split"] == "validation"]["metric"])
    losses = metrics[(metrics["metric"] == "loss") & metrics["client"].isna()]["value"].tolist()
    assert losses == [entry["loss"] for entry in judged.records_]


def test_eval_of_files_and_tables(tmp_path: Any) -> None:
    for name, frame in FRAMES.items():
        (tmp_path / "train").mkdir(exist_ok=True)
        (tmp_path / "test").mkdir(exist_ok=True)
        frame[:40].to_csv(tmp_path / "train" / f"{name}.csv", index=False)
        frame[40:].to_csv(tmp_path / "test" / f"{name}.csv", index=False)
    model = ifca(rounds=1).fit(tmp_path / "train", "kind", eval=tmp_path / "test")
    assert model.client_names_ == ["east.csv", "north.csv", "south.csv", "west.csv"]
    assert model.classes_.tolist() == [0, 1, 2]
    metrics = model.metrics_
    own = metrics[(metrics["metric"] == "accuracy") & (metrics["client"] == "east.csv")]["value"].item()
    assert own == pytest.approx(model.score(tmp_path / "test" / "east.csv", client="east.csv"))
    assert own == pytest.approx(model.score(FRAMES["east"][40:], client="east.csv"))


class Counting(Callback):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def begin(self) -> None:
        self.calls.append("begin")

    def step(self, line: Any, timing: Any) -> None:
        self.calls.append(f"step {line['step']}")

    def end(self, status: str) -> None:
        self.calls.append(status)


def test_callbacks_follow_a_fit_and_functions_get_its_records() -> None:
    counting, lines = Counting(), []
    fedkin.FedAvg(rounds=2, random_state=0).fit(TRAIN, eval=TEST, callbacks=[counting, lines.append])
    assert counting.calls == ["begin", "step 1", "step 2", "finished"]
    assert [line["step"] for line in lines] == [1, 2]
    assert 0 < lines[-1]["metrics"]["personal_accuracy"] <= 1
    fedkin.FedAvg(rounds=1, random_state=0).fit(TRAIN, callbacks=None)
    steps: list[Any] = []
    fedkin.KFed(n_clusters=3, random_state=0).fit(X, callbacks=[steps.append])
    assert len(steps) == 1


def test_a_fit_stops_early() -> None:
    stop = fedkin.EarlyStopping(patience=2)
    model = fedkin.FedAvg(rounds=50, random_state=0).fit(TRAIN, validation=0.3, callbacks=[stop])
    assert len(model.records_) == stop.best_step + 2 < 50
    with pytest.raises(FedkinError, match="Give fit validation, a fraction or samples"):
        fedkin.FedAvg(rounds=2, random_state=0).fit(TRAIN, callbacks=[fedkin.EarlyStopping()])


@pytest.fixture(scope="module")
def clustered() -> fedkin.KFed:
    return fedkin.KFed(n_clusters=3, random_state=0).fit({n: (x[:40], Y[n][:40]) for n, x in X.items()}, eval=PAIRS)


def test_samples_are_found_by_the_clients_names(clustered: fedkin.KFed) -> None:
    labels = clustered.labels_
    assert np.array_equal(labels["east"], labels[2])
    assert list(dict(labels)) == NAMES
    for twin in (pickle.loads(pickle.dumps(labels)), copy.deepcopy(labels)):
        assert np.array_equal(twin["east"], labels[2])
    with pytest.raises(FedkinError, match="Unknown client 'nort'; did you mean 'north'"):
        labels["nort"]
    assert ByClient([1, 2], ["a", "b"])[:1] == [1]


def test_labels_are_not_looked_at_and_clusters_are_compared_with_them(clustered: fedkin.KFed) -> None:
    plain = fedkin.KFed(n_clusters=3, random_state=0).fit({name: x[:40] for name, x in X.items()})
    assert all(np.array_equal(a, b) for a, b in zip(plain.labels_, clustered.labels_, strict=True))
    metrics = clustered.metrics_
    samples = metrics[(metrics["metric"] == "samples") & (metrics["client"] == "east")]
    assert samples["value"].sum() == 40
    agreement = metrics[(metrics["metric"] == "ari") & metrics["client"].isna()].set_index("split")["value"]
    assert agreement["train"] > 0.8
    assert {"train", "test"} == set(agreement.index)
    assert "ari" not in set(plain.metrics_["metric"])
    assert clustered.score({name: (X[name], Y[name]) for name in NAMES}) > 0.8
    assert clustered.score(X["east"], Y["east"]) == clustered.score((X["east"], Y["east"]))
    with pytest.raises(FedkinError, match="score compares clusters with labels; give clients as pairs"):
        plain.score(X)
