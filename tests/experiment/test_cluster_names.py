"""Names that users give clusters."""

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import fedkin
from fedkin.clustering.matching import corresponding, table_of
from fedkin.experiment.numbering import CLUSTER_NAMES, read_names
from shell import fedkin as command

TITLE = 'data-cluster="0"'


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    Path("sites").mkdir()
    for site in ("north", "south"):
        rows = np.concatenate([rng.normal(centre, 1, (40, 2)) for centre in (0, 10, 30)])
        pd.DataFrame(rows, columns=["age", "weight"]).to_csv(f"sites/{site}.csv", index=False)
    assert command("run", "kfed", "sites", "--clusters", "3", "--out", "run", "-q") == 0
    return tmp_path / "run"


def test_names_are_in_every_output_and_stay_where_clusters_do(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (run / "report.html").read_text()
    assert command("name", "run", "0=<b>frail", "1=young and well", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in listed] == ["<b>frail", "young and well", None]
    assert [each["members"] for each in listed] == [80, 80, 80]
    shown = (run / "report.html").read_text()
    assert shown.count(TITLE) > 1
    *_, data = shown.splitlines()
    assert json.loads(data.partition(">")[2].partition("</")[0]) == {"0": "<b>frail", "1": "young and well"}
    assert "<b>frail" not in shown
    assert command("predict", "run", "sites/north.csv") == 0
    rows = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    assert rows[0][:3] == ["row", "cluster", "cluster_name"]
    assert {row[2] for row in rows[1:]} == {"<b>frail", "young and well", ""}
    assert command("resume", "run", "--json") == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["names"] == {"0": "<b>frail", "1": "young and well"}
    assert tree["sentences"][0].startswith("Cluster 0, <b>frail (80 samples)")
    assert (run / "report.html").read_text() == shown
    assert command("forget", "run", "--client", "south", "--retrain", "-q", "-o", "less") == 0
    assert command("name", "run", "0=", "1=") == 0
    assert (run / "report.html").read_text() == page
    assert sorted(read_names(Path("less")).values()) == ["<b>frail", "young and well"]


@pytest.mark.parametrize("pairs", [["3=x"], ["0=same", "1=SAME"], ["frail"], ["0=a\nb"], ["0=" + "x" * 61]])
def test_what_is_no_name_is_refused_before_anything_is_written(
    run: Path, pairs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("name", "run", *pairs) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (run / CLUSTER_NAMES).exists()


def test_an_estimator_keeps_names_until_it_is_fitted_again() -> None:
    rng = np.random.default_rng(0)
    clients = {name: np.concatenate([rng.normal(c, 1, (60, 4)) for c in (0, 20, 90)]) for name in ("north", "south")}
    model = fedkin.KinGraph(n_clusters=3, random_state=0).fit(clients).rename({2: "old", 1: "frail"})
    assert pickle.loads(pickle.dumps(model)).cluster_names_ == {1: "frail", 2: "old"}
    assert not hasattr(clone(model), "cluster_names_")
    kept = model.cut(2)
    old, new = (np.concatenate(each.labels_) for each in (model, kept))
    assert kept.cluster_names_ == {
        b: model.cluster_names_[a] for a, b in corresponding(table_of(old, new)).items() if a in model.cluster_names_
    }
    for wrong in ({3: "x"}, {True: "x"}, {0: "frail"}, {0: 4}, ["x"]):
        with pytest.raises(fedkin.FedkinError):
            model.rename(wrong)  # type: ignore[arg-type]
    assert model.cluster_names_ == {1: "frail", 2: "old"}
    assert model.fit(clients).cluster_names_ == {}
