"""The command line, `fit` and nodes of Flower find the same clusters, and the same clients missing."""

import json
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import fedkin as fk
import hostile
from fedkin.core import Payload, Task
from fedkin.engines.local import LocalFederation
from fedkin.estimators.estimator import Estimator
from fedkin.experiment import registry
from fedkin.experiment.run_folder import RunFiles, load_found
from nodes import Nodes
from shell import fedkin
from toy_runs import files

NAMES = sorted(registry.METHODS)
BEFORE = [("ccfc", 1), ("fedavg", 1), ("fedavg", 2), ("kfed", 1), ("kfed", 2)]
"""Methods and exchanges before the first step, in which all methods prepare the tables alike."""
SEED = 7
ESTIMATORS: dict[type, Any] = {
    made._method: made
    for made in (getattr(fk, name) for name in fk.__all__)
    if isinstance(made, type) and issubclass(made, Estimator)
}


@pytest.fixture
def clients(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Six clients by name, tables or images with labels, which are in the folder ``sites``, too."""
    monkeypatch.chdir(tmp_path)
    Path("sites").mkdir()
    made: dict[str, Any] = {}
    for client in hostile.clients_for(request.node.callspec.params["name"]):
        name, x, y = f"site-{client.id}", client.x.numpy(), client.y.numpy()
        if x.ndim > 2:
            made[name] = (x, y)
            np.savez(f"sites/{name}.npz", x=x, y=y)
        else:
            made[name] = pd.DataFrame(x.astype(float).round(3), columns=list("abcd")).assign(target=y)
            made[name].to_csv(f"sites/{name}.csv", index=False)
    return made


def by_command_line(name: str, *words: str) -> dict[str, list[int]]:
    settings = [f"method.{key}={json.dumps(value)}" for key, value in hostile.SMALL[name].items()]
    words = (*words, *(word for one in settings for word in ("--set", one)))
    assert fedkin("run", name, "--data", "sites", "--seed", str(SEED), "--out", "run", "-q", *words) == 0
    if Path("run/clients.csv").is_file():
        found = pd.read_csv("run/clients.csv")
        return {each: [cluster] for each, cluster in zip(found["name"], found["cluster"], strict=True)}
    return {path.stem: pd.read_csv(path)["cluster"].tolist() for path in sorted(Path("run/labels").iterdir())}


def by_fit(name: str, clients: dict[str, Any]) -> tuple[Any, dict[str, list[int]]]:
    method = registry.resolve("method", name)
    model = ESTIMATORS[method](**hostile.SMALL[name], random_state=SEED).fit(clients)
    if method.traits.clusters == "clients":
        return model, {each: [cluster] for each, cluster in model.clusters_.items()}
    return model, {each: labels.tolist() for each, labels in model.labels_.items()}


@contextmanager
def grid_here(app: Any, nodes: int, workers: int) -> Iterator[Nodes]:
    yield Nodes(app, nodes)


@pytest.mark.filterwarnings("ignore::fedkin.FedkinWarning")
@pytest.mark.parametrize("name", NAMES)
def test_every_door_finds_the_same(name: str, clients: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model, fitted = by_fit(name, clients)
    assert by_command_line(name) == fitted
    saved = load_found(Path("run")).result
    assert saved.keys() == model.result_.keys()
    for key, value in saved.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, model.result_[key]), key
    Path("run").rename("local")
    monkeypatch.setattr("fedkin.experiment.simulation.simulated_grid", grid_here)
    assert by_command_line(name, "--set", "simulation.engine=flower") == fitted


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedkin.FedkinWarning")
@pytest.mark.parametrize("name", NAMES)
def test_killed_after_any_step_a_run_ends_as_it_would_have(name: str, clients: dict[str, Any]) -> None:
    write, killed = RunFiles.checkpoint, list[Path]()

    def checkpoint(run: RunFiles, *written: Any) -> None:
        write(run, *written)
        killed.append(shutil.copytree(run.folder, Path(f"killed-{len(killed)}")))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RunFiles, "checkpoint", checkpoint)
        by_command_line(name)
    for folder in killed:
        assert fedkin("resume", str(folder), "-q") == 0
        assert files(folder) == files(Path("run")), folder


@pytest.mark.parametrize("column", ["label", "class", "target", "y", "Target"])
def test_a_column_called_like_labels_is_none_of_the_features_at_any_door(column: str, tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    plain = [pd.DataFrame(x[half], columns=["a", "b"]) for half in (slice(20), slice(20, 40))]
    tables = [own.assign(**{column: y[:20] * 100}) for own in plain]
    model = fk.KFed(n_clusters=2, random_state=0)
    expected = model.fit(plain).labels_
    with pytest.warns(fk.FedkinWarning, match=f"'{column}' is taken for labels"):
        model.fit(tables)
    assert list(model.feature_names_in_) == ["a", "b"]
    assert all(map(np.array_equal, model.labels_, expected))
    assert all(map(np.array_equal, model.predict(tables), model.predict(plain)))
    assert all(map(np.array_equal, model.fit(tables, y=column).labels_, expected))  # named, so there is no warning
    for at, own in enumerate(tables):
        own.to_csv(tmp_path / f"{at}.csv", index=False)
    with pytest.warns(fk.FedkinWarning, match=f"'{column}' is taken for labels"):
        assert all(map(np.array_equal, model.fit(tmp_path).labels_, expected))
    assert list(model.fit(tables, y="none").feature_names_in_) == ["a", "b", column]
    assert all(map(np.array_equal, model.predict(tables), model.labels_))


@pytest.mark.parametrize("made", [fk.KFed(n_clusters=2), fk.FedAvg(rounds=1)])
def test_an_outcome_that_is_a_feature_is_warned_of(made: Any) -> None:
    x, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    table = pd.DataFrame(x, columns=["a", "b"]).assign(target=y)
    with pytest.warns(fk.FedkinWarning, match="'target' is called like labels and is a feature"):
        made.fit([table[:20], table[20:]], y=[y[:20], y[20:]])
    table = table.assign(species=np.arange(40) // 2 % 2)
    with pytest.warns(fk.FedkinWarning, match="'target' is called like labels and is a feature"):
        made.fit([table[:20], table[20:]], y="species")


def test_a_measured_outcome_is_warned_of_and_a_coordinate_is_not() -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.warns(fk.FedkinWarning, match="'y' is called like labels and is a feature; if it"):
        fk.KFed(n_clusters=2).fit([pd.DataFrame(half, columns=["a", "y"]) for half in (x[:20], x[20:])])
    fk.KFed(n_clusters=2).fit([pd.DataFrame(half, columns=["x", "y"]) for half in (x[:20], x[20:])])


class Losing(LocalFederation):
    """A federation in which one client fails from the exchange `since` on."""

    since = 1

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        for client, reply in super().deliver(task, payloads):
            lost = client == hostile.LIAR and self.exchange >= self.since
            yield client, "its disk is full" if lost else reply


@pytest.mark.parametrize(("name", "since"), [*((name, 4) for name in NAMES), *BEFORE])
def test_a_client_that_fails_is_named_and_the_others_get_their_clusters(
    name: str, since: int, clients: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Losing, "since", since)
    monkeypatch.setattr("fedkin.estimators.estimator.LocalFederation", Losing)
    monkeypatch.setattr("fedkin.experiment.run.LocalFederation", Losing)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model, fitted = by_fit(name, clients)
    lost = f"site-{hostile.LIAR}"
    clusters_samples = model._method.traits.clusters == "samples"
    labelled = {each: labels for each, labels in fitted.items() if labels[0] >= 0 or not clusters_samples}
    assert by_command_line(name) == labelled
    assert set(model.missing_) <= {lost}
    assert bool(model.missing_) == any(lost in str(one.message) for one in caught)
    if model.missing_:
        assert set(fitted.pop(lost)) == {-1}
    assert all(min(labels) >= 0 for labels in fitted.values())
    assert str(hostile.LIAR) in model.records_[-1]["missing"] or not model.missing_
    x = next(iter(clients.values()))
    model.predict(x[0] if isinstance(x, tuple) else x, **({} if clusters_samples else {"client": 0}))
