"""What a run found, put to use: classes of new samples, clusters of new clients."""

import csv
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedkin.core import FedkinError
from fedkin.data.reading.sources import load
from fedkin.experiment import outputs, prediction
from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute
from fedkin.methods.clients.embedding import embedding
from fedkin.methods.clients.embedding.embedding import message_of

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


@pytest.mark.parametrize("client", [0, 3, 5])
def test_a_clients_samples_get_the_names_of_classes(client: int, found: Path, tmp_path: Path) -> None:
    source = save(tmp_path, HELD[client // 2])
    head, *rows = rows_of(prediction.predict(found, source, client=client))
    assert head == ["row", "class"]
    assert [row for row, _ in rows] == [str(at) for at in range(len(rows))]
    true = np.load(source)["y"]
    assert np.mean([name == truth for (_, name), truth in zip(rows, true, strict=True)]) > 0.8


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


@pytest.mark.parametrize(
    ("client", "sentence"),
    [
        (None, "has a model for each cluster of clients; say by --client whose model predicts"),
        (6, "has no client 6"),
        (-1, "has no client -1"),
    ],
)
def test_a_client_must_be_named(client: int | None, sentence: str, found: Path) -> None:
    with pytest.raises(FedkinError, match=rf"{sentence}; allowed: 0 to 5{NEW}$"):
        prediction.predict(found, "digits", client=client)


def test_a_new_client_is_served_by_the_model_of_its_cluster(found: Path, tmp_path: Path) -> None:
    source = save(tmp_path, HELD[1])
    cluster = prediction.assign(found, source)
    assert prediction.predict(found, source, cluster=cluster) == prediction.predict(found, source, client=2)


@pytest.mark.parametrize(
    ("whose", "sentence"),
    [
        ({"cluster": 3}, r"has no cluster 3; allowed: 0 to 2\.$"),
        ({"cluster": -1}, r"has no cluster -1; allowed: 0 to 2\.$"),
        (
            {"cluster": 0, "client": 0},
            r"^--client and --cluster were both given; give one of them, which says whose model predicts\.$",
        ),
    ],
)
def test_a_cluster_must_exist_and_be_named_alone(whose: dict[str, int], sentence: str, found: Path) -> None:
    with pytest.raises(FedkinError, match=sentence):
        prediction.predict(found, "digits", **whose)


def test_a_class_that_the_run_does_not_know_is_refused(found: Path, tmp_path: Path) -> None:
    source = save(tmp_path, HELD[1], names="number {}")
    with pytest.raises(FedkinError, match=r"has the class 'number 4', which the run does not know\.$"):
        prediction.assign(found, source)


def test_a_class_that_no_client_had_is_refused(tmp_path: Path) -> None:
    """The models have no output for it."""
    (tmp_path / "clients").mkdir()
    rng = np.random.default_rng(0)
    for name, labels in (("a", [0, 1]), ("b", [0, 1]), ("c", [1, 2])):
        y = np.repeat(labels, [30, 30 if labels != [1, 2] else 1])
        np.savez(tmp_path / "clients" / f"{name}.npz", x=rng.random((len(y), 4), dtype=np.float32), y=y)
    seed = next(
        seed
        for seed in range(99)
        if max(
            int(client.y.max()) for client in load_config("ifca", _clients(tmp_path, seed)).scenario.build(seed).clients
        )
        == 1
    )
    execute(load_config("ifca", _clients(tmp_path, seed)), tmp_path / "run")
    np.savez(tmp_path / "new.npz", x=rng.random((5, 4), dtype=np.float32), y=np.array([1, 2, 1, 2, 1]))
    with pytest.raises(FedkinError, match=r"has the class '2', which the run does not know\.$"):
        prediction.assign(tmp_path / "run", str(tmp_path / "new.npz"))
    np.savez(tmp_path / "new.npz", x=rng.random((5, 4), dtype=np.float32), y=np.ones(5, dtype=int))
    assert prediction.assign(tmp_path / "run", str(tmp_path / "new.npz")) in range(3)


def _clients(folder: Path, seed: int) -> list[str]:
    return [
        "scenario.name=files",
        f"data.source={folder / 'clients'}",
        "scenario.test_fraction=0.5",
        "method.rounds=1",
        f"seed={seed}",
    ]


def test_a_client_without_labels_cannot_be_assigned(found: Path, tmp_path: Path) -> None:
    source = save(tmp_path, HELD[1], labelled=False)
    with pytest.raises(
        FedkinError, match=r"has no labels, by which a client finds its cluster; name their column with"
    ):
        prediction.assign(found, source)


def test_samples_of_another_shape_are_refused(found: Path) -> None:
    for ask in (lambda: prediction.assign(found, "wine"), lambda: prediction.predict(found, "wine", client=0)):
        with pytest.raises(FedkinError, match=r"^(The samples have shape \(13,\), but|'wine' has the class)"):
            ask()


@pytest.mark.usefixtures("toy")
def test_a_method_that_clusters_samples_has_no_clusters_of_clients(tmp_path: Path) -> None:
    execute(load_config("toy", ["scenario.name=toy"]), tmp_path / "run")
    with pytest.raises(
        FedkinError, match=r"^Method 'toy' of .*run clusters samples, not clients; use `fedkin predict`"
    ):
        prediction.assign(tmp_path / "run", "wine")
    with pytest.raises(FedkinError, match=r"^Method 'toy' of .*run clusters samples, not clients; leave --client out"):
        prediction.predict(tmp_path / "run", "wine", client=0)


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


@pytest.mark.parametrize("number", [12, 13])
def test_a_new_client_without_labels_gets_its_cluster(number: int, unlabelled: Path, turned: Path) -> None:
    clusters = [label for _, label, _ in rows_of((unlabelled / "clients.csv").read_text())[1:]]
    assert clusters == ["0", "1"] * 6
    assert prediction.assign(unlabelled, str(turned / f"{number}.npz")) == number % 2


def test_a_new_clients_message_is_always_the_same(unlabelled: Path, turned: Path, monkeypatch: Any) -> None:
    sent = []

    def listened(*arguments: Any) -> Any:
        message, remembered = message_of(*arguments)
        sent.append(message)
        return message, remembered

    monkeypatch.setattr(embedding, "message_of", listened)
    for _ in range(2):
        prediction.assign(unlabelled, str(turned / "12.npz"))
    assert torch.equal(*sent)


@pytest.mark.parametrize("whose", [{}, {"client": 0}, {"cluster": 0}])
def test_clusters_of_clients_without_labels_have_no_models(whose: dict[str, int], unlabelled: Path) -> None:
    with pytest.raises(FedkinError, match=r"run had no labels, so there are clusters but no models to predict with\.$"):
        prediction.predict(unlabelled, "digits", **whose)


@pytest.mark.parametrize(
    "options", [["embedding", "method.pretraining_rounds=6"], ["ladd", "method.n_clusters=2", "method.window=0.3"]]
)
def test_a_new_client_is_placed_by_one_message(options: list[str], tmp_path: Path) -> None:
    name, *more = options
    more += ["scenario.name=rotation", "scenario.angles=[0,90]", "scenario.clients=12", "method.rounds=1"]
    execute(load_config(name, more), tmp_path / "run")
    clusters = [int(label) for _, label in rows_of((tmp_path / "run" / "clients.csv").read_text())[1:]]
    assert clusters in ([0, 1] * 6, [1, 0] * 6)
    data = load("digits")
    for turns in (0, 1):
        np.savez(tmp_path / "new.npz", x=data.x[:200].rot90(turns, (2, 3)).numpy(), y=data.y[:200].numpy())
        assert prediction.assign(tmp_path / "run", str(tmp_path / "new.npz")) == clusters[turns]
        rows = rows_of(prediction.predict(tmp_path / "run", str(tmp_path / "new.npz"), cluster=clusters[turns]))
        assert len(rows) == 201
    np.savez(tmp_path / "new.npz", x=data.x[:200].numpy())
    with pytest.raises(FedkinError, match=r"has no labels, by which a client finds its cluster"):
        prediction.assign(tmp_path / "run", str(tmp_path / "new.npz"))


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


def test_a_folder_above_results_names_the_newest(found: Path, tmp_path: Path) -> None:
    for age, name in enumerate(("new", "old")):
        folder = tmp_path / "site" / "results" / name
        folder.mkdir(parents=True)
        for file in ("result.json", "models.safetensors"):
            (folder / file).write_bytes((found / file).read_bytes())
        os.utime(folder / "result.json", (1e9 - age, 1e9 - age))
    with pytest.raises(FedkinError, match=r"site holds no result to predict with; '.*/site/results/new' does\.$"):
        prediction.predict(tmp_path / "site", "digits", client=0)


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
