"""What a run found, put to use: classes of new samples, clusters of new clients."""

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import fedkin
from fedkin.core import FedkinError
from fedkin.data.sources import load
from fedkin.experiment import prediction, run_folder
from fedkin.experiment.config import load_config
from fedkin.experiment.prediction import predict
from fedkin.experiment.run import execute

OPTIONS = ["simulation.clients=6", "method.module=perceptron", "method.learning_rate=0.2", "method.rounds=6"]


HELD = ((0, 1, 2, 3), (4, 5, 6), (7, 8, 9))
"""Classes of the clusters of the scenario 'label-clusters'; clients are in order of cluster."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of OCFL on digits."""
    folder = tmp_path_factory.mktemp("outputs") / "run"
    outcome = execute(load_config("ocfl", OPTIONS), folder)
    assert outcome.records[-1]["metrics"]["ari"] == 1.0
    return folder


def test_a_folder_of_clients_is_predicted_client_by_client(found: Path, tmp_path: Path) -> None:
    """By the model of the client that each file is called after, unless one is named."""
    x = load("digits").x[:6].numpy()
    for name in ("0", "4", "5"):
        np.savez(tmp_path / f"{name}.npz", x=x)
    rows = list(csv.reader(io.StringIO(prediction.predict(found, str(tmp_path)))))
    assert rows[0] == ["client", "row", "class"]
    assert [row[:2] for row in rows[1:]] == [[name, str(row)] for name in ("0", "4", "5") for row in range(6)]
    for name in ("0", "4"):
        alone = list(csv.reader(io.StringIO(prediction.predict(found, str(tmp_path / "5.npz"), client=name))))
        assert [row[1:] for row in rows if row[0] == name] == alone[1:]
    of_one = prediction.predict(found, str(tmp_path), cluster=0)
    assert len({tuple(line.split(",")[1:]) for line in of_one.splitlines()[1:]}) == 6
    np.savez(tmp_path / "north.npz", x=x)
    with pytest.raises(FedkinError, match="has no client north; give --client, 0 to 5, or for a new client --cluster"):
        prediction.predict(found, str(tmp_path))


def save(folder: Path, classes: tuple[int, ...], labelled: bool = True, names: str = "{}") -> str:
    """Digits of some classes as a file; labels are written out as names."""
    data = load("digits")
    rows = torch.isin(data.y, torch.tensor(classes))
    more = {"y": np.array([names.format(label) for label in data.y[rows].tolist()])} if labelled else {}
    np.savez(folder / "new.npz", x=data.x[rows].numpy(), **more)
    return str(folder / "new.npz")


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


@pytest.mark.parametrize("cluster", [0, 1, 2])
def test_a_new_client_gets_its_cluster(cluster: int, found: Path, tmp_path: Path) -> None:
    clusters = {int(client): int(label) for client, label in rows_of((found / "clients.csv").read_text())[1:]}
    assert len(set(clusters.values())) == 3
    assert prediction.assign(found, save(tmp_path, HELD[cluster])) == clusters[2 * cluster] == clusters[2 * cluster + 1]


@pytest.mark.parametrize("ask", [lambda folder: prediction.assign(folder, "digits"), run_folder.load_found])
def test_no_result_is_reported(ask, found: Path, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_bytes((found / "result.json").read_bytes())
    with pytest.raises(FedkinError, match=r"holds no result to predict with; "):
        ask(tmp_path)


def test_memberships_are_columns_of_labels_and_of_predictions(tmp_path: Path) -> None:
    options = ["data.source=iris", "simulation.heterogeneity=0", "method.n_clusters=3", "evaluation.map=none"]
    execute(load_config("ffcm", [*options, "method.rounds=2"]), tmp_path / "run")
    header, *rows = (tmp_path / "run" / "labels" / "client-0.csv").read_text().splitlines()
    assert header == "row,cluster,confidence,membership_0,membership_1,membership_2"
    parts = [[float(cell) for cell in row.split(",")[3:]] for row in rows]
    assert all(abs(sum(own) - 1) < 2e-4 for own in parts)
    assert [own.index(max(own)) for own in parts] == [int(row.split(",")[1]) for row in rows]
    assert prediction.predict(tmp_path / "run", "iris").startswith("row,cluster,confidence\n")
    assert prediction.predict(tmp_path / "run", "iris", memberships=True).startswith(f"{header}\n")
    execute(load_config("kfed", options), tmp_path / "hard")
    with pytest.raises(FedkinError, match="are hard, without memberships"):
        prediction.predict(tmp_path / "hard", "iris", memberships=True)


def test_files_are_predicted_as_the_runs_were_read_and_clients_by_name(tmp_path: Path) -> None:
    """With a decimal comma, and by the file's name."""
    rng = np.random.default_rng(0)
    (tmp_path / "sites").mkdir()
    for name in ("north", "south"):
        rows = [f"{1.5 + 9 * (i % 2) + rng.normal():.2f};{rng.normal():.2f};{i % 2}" for i in range(40)]
        (tmp_path / "sites" / f"{name}.csv").write_text("a;b;ill\n" + "\n".join(rows).replace(".", ",") + "\n")
    data = [f"data.source={tmp_path / 'sites'}", "data.label=ill", "simulation.scenario=files"]
    execute(load_config("ifca", [*data, "method.rounds=1", "method.n_clusters=2"]), tmp_path / "run")
    source = str(tmp_path / "sites" / "south.csv")
    text = prediction.predict(tmp_path / "run", source, client="south.csv")
    assert text == prediction.predict(tmp_path / "run", source, client=1)
    assert text == prediction.predict(tmp_path / "run", source, client="1", decimal=",")
    assert len(rows_of(text)) == 41
    with pytest.raises(FedkinError, match=r"has no client west; give --client, 0 to 1, or north, south"):
        prediction.predict(tmp_path / "run", source, client="west")
    (tmp_path / "new.csv").write_text("a;b\n1,125;2,500\n")
    with pytest.raises(FedkinError, match="decimal"):
        prediction.predict(tmp_path / "run", str(tmp_path / "new.csv"), client=1)
    assert len(rows_of(prediction.predict(tmp_path / "run", str(tmp_path / "new.csv"), client=1, decimal=","))) == 2


QUICK = ["method.rounds=2", "method.module=perceptron", "evaluation.map=none"]


GENERATOR = np.random.default_rng(0)


def hospital(unit: float, rows: int = 40) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "dose": GENERATOR.normal(5, 1, rows).round(2) * unit,
            "ward": GENERATOR.choice(["east", "west"], rows),
            "found": GENERATOR.choice(["sick", "well"], rows),
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clients' files with decimal commas, and -9 where the dose is missing."""
    folder = tmp_path_factory.mktemp("hospitals")
    for name, unit in (("north", 1.0), ("south", 1.1), ("west", 0.9)):
        frame = hospital(unit)
        frame.loc[3, "dose"] = -9
        frame.to_csv(folder / f"{name}.csv", index=False, decimal=",", sep=";")
    return folder


@pytest.fixture(scope="module")
def run(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "ifca"
    options = [
        f"data.source={files}",
        "simulation.scenario=files",
        "data.label=found",
        "data.decimal=,",
        "data.na_values=-9",
    ]
    with pytest.warns(UserWarning, match=r"3 of 240 cells are empty"):
        execute(load_config("ifca", [*options, *QUICK, "method.n_clusters=2"]), folder)
    return folder


def test_a_module_says_what_fedkin_predict_says(run: Path, files: Path) -> None:
    found = fedkin.load_models(str(run))
    assert len(found.models) == 2
    assert not any(model.training for model in found.models)
    assert found.classes == ["sick", "well"]
    assert set(found.clusters) == {"north", "south", "west"}
    listed = pd.read_csv(run / "clients.csv")
    assert dict(zip(listed["name"], listed["cluster"], strict=True)) == found.clusters
    for name, cluster in found.clusters.items():
        with torch.no_grad():
            logits = found.models[cluster](found.preparation.apply(files / f"{name}.csv"))
        said = [line.split(",")[-1] for line in predict(run, str(files / f"{name}.csv"), client=name).splitlines()[1:]]
        assert [found.classes[one] for one in logits.argmax(1)] == said


def test_a_module_of_another_package_is_imported_only_if_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = "nn.Sequential(nn.Flatten(), nn.Linear(64, classes))"
    text = f"from torch import nn\n\n\ndef make(shape, classes):\n    return {made}\n"
    (tmp_path / "ownnet.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    settings = ["simulation.clients=3", *QUICK, "method.module=ownnet:make"]
    execute(load_config("fedavg", settings), tmp_path / "run")
    with pytest.raises(FedkinError, match=r"'ownnet' is not from fedkin, so it is not imported; packages="):
        fedkin.load_models(tmp_path / "run")
    assert fedkin.load_models(tmp_path / "run", packages=["ownnet"]).models[0](torch.zeros(1, 64)).shape == (1, 10)
