"""What a run found, put to use: classes of new samples, clusters of new clients."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
import torch

from fedkin.core import FedkinError
from fedkin.data.sources import load
from fedkin.experiment import outputs, prediction
from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute

OPTIONS = ["scenario.clients=6", "method.module=perceptron", "method.learning_rate=0.2", "method.rounds=6"]
HELD = ((0, 1, 2, 3), (4, 5, 6), (7, 8, 9))
"""Classes of the clusters of the scenario 'label-clusters'; clients are in order of cluster."""

NEW = "; for a new client give --cluster, which `fedkin assign` finds."


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
    np.savez(tmp_path / "5.npz", x=x[:, :, :4])
    with pytest.raises(FedkinError) as refused:
        prediction.predict(found, str(tmp_path))
    first, second = str(refused.value).splitlines()
    assert first.startswith(f"'{tmp_path}/5.npz' has samples of shape") or str(tmp_path / "5.npz") in first
    assert second == f"'{tmp_path}/north.npz': {found} has no client north; allowed: 0 to 5{NEW}"


def save(folder: Path, classes: tuple[int, ...], labelled: bool = True, names: str = "{}") -> str:
    """Digits of some classes as a file; labels are written out as names."""
    data = load("digits")
    rows = torch.isin(data.y, torch.tensor(classes))
    more = {"y": np.array([names.format(label) for label in data.y[rows].tolist()])} if labelled else {}
    np.savez(folder / "new.npz", x=data.x[rows].numpy(), **more)
    return str(folder / "new.npz")


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_clients_of_different_clusters_are_served_by_different_models(found: Path, tmp_path: Path) -> None:
    source = save(tmp_path, HELD[0], labelled=False)
    texts = [prediction.predict(found, source, client=client) for client in range(6)]
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3


@pytest.mark.parametrize("cluster", [0, 1, 2])
def test_a_new_client_gets_its_cluster(cluster: int, found: Path, tmp_path: Path) -> None:
    clusters = {int(client): int(label) for client, label in rows_of((found / "clients.csv").read_text())[1:]}
    assert len(set(clusters.values())) == 3
    assert prediction.assign(found, save(tmp_path, HELD[cluster])) == clusters[2 * cluster] == clusters[2 * cluster + 1]


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fourteen files of unlabelled digits, odd ones turned by a quarter; twelve of them are a folder."""
    folder = tmp_path_factory.mktemp("turned")
    (folder / "clients").mkdir()
    for i in range(14):
        x = load("digits").x[i::14].rot90(i % 2, (2, 3))
        np.savez(folder / ("clients" if i < 12 else ".") / f"{i:02}.npz", x=x.numpy())
    return folder


@pytest.fixture(scope="module")
def unlabelled(turned: Path) -> Path:
    """A finished run of embeddings on clients without labels."""
    options = ["scenario.name=files", f"data.source={turned / 'clients'}", "method.form=prototypes"]
    execute(load_config("embedding", [*options, "method.flip=0.02"]), turned / "run")
    return turned / "run"


@pytest.mark.parametrize("ask", [lambda folder: prediction.assign(folder, "digits"), outputs.load_found])
@pytest.mark.parametrize("content", [None, "{", "{}"])
def test_no_result_is_reported(ask, content: str | None, found: Path, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "result.json").write_text(content)
        (tmp_path / "models.safetensors").write_bytes((found / "models.safetensors").read_bytes())
    advice = r"give a finished run's, or one with its result\.json and models\.safetensors\.$"
    if content is not None:
        advice = r"its result\.json or models\.safetensors is damaged\.$"
    with pytest.raises(FedkinError, match=rf"holds no result to predict with; {advice}"):
        ask(tmp_path)
    (tmp_path / "config.toml").touch()
    with pytest.raises(FedkinError, match=r"holds no result to predict with; `fedkin resume` may finish it\.$"):
        ask(tmp_path)


def test_memberships_are_columns_of_labels_and_of_predictions(tmp_path: Path) -> None:
    options = ["data.source=iris", "scenario.heterogeneity=0", "method.n_clusters=3", "evaluation.map=none"]
    outcome = execute(load_config("ffcm", [*options, "method.rounds=2"]), tmp_path / "run")
    header, *rows = (tmp_path / "run" / "labels" / "client-0.csv").read_text().splitlines()
    assert header == "row,cluster,confidence,membership_0,membership_1,membership_2"
    parts = [[float(cell) for cell in row.split(",")[3:]] for row in rows]
    assert all(abs(sum(own) - 1) < 2e-4 for own in parts)
    assert [own.index(max(own)) for own in parts] == [int(row.split(",")[1]) for row in rows]
    assert prediction.predict(tmp_path / "run", "iris").startswith("row,cluster,confidence\n")
    assert prediction.predict(tmp_path / "run", "iris", memberships=True).startswith(f"{header}\n")
    metrics = outcome.records[-1]["metrics"]
    assert 0 < metrics["soft_ari"] < 1
    assert 1 / 3 < metrics["partition_coefficient"] < 1
    assert "Partition coefficient" in outcome.report.read_text()
    hard = execute(load_config("kfed", options), tmp_path / "hard")
    assert "soft_ari" not in hard.records[-1]["metrics"]
    with pytest.raises(FedkinError, match=r"'kfed' of .* has no memberships"):
        prediction.predict(tmp_path / "hard", "iris", memberships=True)
