"""Runs on tables: what they say of clusters, and that saying it changes nothing."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

from fedkin.core import FedkinError
from fedkin.experiment import run_loop
from fedkin.experiment.config import load_config
from fedkin.experiment.outputs import load_profile
from fedkin.experiment.prediction import predict
from fedkin.experiment.run import execute, report, resume
from fedkin.experiment.terminal import Quiet, print_outcome

FILES = ("result.json", "models.safetensors", "report.html", "records.jsonl", "labels/north.csv")


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Wines at three sites of which each lacks one kind; with ids and a column that means nothing."""
    wine, rng = load_wine(as_frame=True), np.random.default_rng(0)
    frame = wine.data.round(3)
    frame.insert(0, "bottle", [f"B-{row:03d}" for row in range(len(frame))])
    frame["town"] = rng.choice(["Bonn", "Kiel", "Ulm"], len(frame))
    holder = rng.integers(0, 3, len(frame))
    holder = np.where(holder == wine.target, (holder + 1) % 3, holder)
    (tmp_path / "wines").mkdir()
    for at, name in enumerate(("north", "south", "west")):
        frame[holder == at].to_csv(tmp_path / "wines" / f"{name}.csv", index=False)
    return tmp_path / "wines"


def config(tables: Path, *more: str):
    settings = [f"data.source='{tables}'", "scenario.name=files", "method.n_clusters=3", "evaluation.map=none"]
    return load_config("ffcm", [*settings, *more])


class StoppedAfterOne(Quiet):
    """Interrupts a run once a step has been recorded."""

    def step(self, *_):
        raise KeyboardInterrupt


def ran(config, folder):
    return execute(config, folder, Quiet())


def test_fewer_clusters_than_were_asked_for_are_mentioned(tables, tmp_path, capsys):
    settings = [f"data.source='{tables}'", "scenario.name=files", "method.n_clusters=300", "evaluation.map=none"]
    print_outcome(ran(load_config("kfed", settings), tmp_path / "run"))
    said = capsys.readouterr().out
    assert re.search(r"Note: 300 clusters were asked for, and \d+ have samples\.", said)
    assert re.search(r"\d+ clusters: too few samples at any one client to be described\.", said)
    print_outcome(ran(config(tables), tmp_path / "three"))
    assert "asked for" not in capsys.readouterr().out


def test_a_run_on_tables_says_what_its_clusters_are(tables, tmp_path, capsys):
    outcome = ran(config(tables), tmp_path / "run")
    print_outcome(outcome)
    said = capsys.readouterr().out
    page = outcome.report.read_text()
    for words in ("low flavanoids (0.8", "high proline", "against"):
        assert words in said
        assert words in page
    assert "town" not in said.split("Report:")[0]
    assert "west" in said
    assert "north.csv" not in said
    profile = load_profile(outcome.folder)
    assert profile is not None
    assert [column.name for column in profile.columns][-1] == "town"
    assert json.loads((outcome.folder / "result.json").read_text())["profile"]


def test_labels_are_called_after_files_and_keep_ids(tables, tmp_path):
    folder = ran(config(tables), tmp_path / "run").folder
    given, found = pd.read_csv(tables / "north.csv"), pd.read_csv(folder / "labels" / "north.csv")
    assert sorted(path.name for path in (folder / "labels").iterdir()) == ["north.csv", "south.csv", "west.csv"]
    memberships = [f"membership_{cluster}" for cluster in range(3)]
    assert list(found.columns) == ["row", "bottle", "cluster", "confidence", *memberships]
    assert found["bottle"].tolist() == given["bottle"].tolist()
    assert found["confidence"].between(0, 1).all()
    again = predict(folder, str(tables / "north.csv"), memberships=True)
    assert again == (folder / "labels" / "north.csv").read_text()


def test_a_run_that_goes_on_or_is_reported_again_says_the_same(tables, tmp_path):
    folder = ran(config(tables), tmp_path / "run").folder
    before = {name: (folder / name).read_bytes() for name in FILES}
    (folder / "result.json").unlink()
    resume(folder, Quiet())
    assert {name: (folder / name).read_bytes() for name in FILES} == before
    (folder / "report.html").unlink()
    report(folder)
    assert {name: (folder / name).read_bytes() for name in FILES} == before


def test_nothing_of_a_run_depends_on_the_profile(tables, tmp_path, monkeypatch):
    with_it = ran(config(tables), tmp_path / "with").folder
    monkeypatch.setattr(run_loop, "profile_clusters", lambda *_: None)
    without = ran(config(tables), tmp_path / "without").folder
    for name in ("records.jsonl", "checkpoint.safetensors", "labels/north.csv"):
        assert (with_it / name).read_bytes() == (without / name).read_bytes()
    assert json.loads((without / "result.json").read_text())["profile"] is None


def test_a_private_run_asks_for_no_profile(tables, tmp_path):
    private = load_config(
        "kin-graph",
        [f"data.source='{tables}'", "scenario.name=files", "method.epsilon=50.0", "evaluation.map=none"],
    )
    assert load_profile(ran(private, tmp_path / "run").folder) is None


def test_secure_sums_give_the_same_sentences(tables, tmp_path):
    secure = config(
        tables, "method.aggregation=mean", "method.start=uniform", "data.scaling=standard", "engine.secure_sums=true"
    )
    profile = load_profile(ran(secure, tmp_path / "run").folder)
    assert profile is not None
    assert profile.members == {}
    assert int(profile.samples.sum()) > 150


def test_new_rows_that_lack_columns_are_told_of_all_and_runs_of_the_nearest(tables, tmp_path):
    folder = ran(config(tables), tmp_path / "wines-run").folder
    (tmp_path / "new.csv").write_text("town,alcohol\nBonn,1\n")
    with pytest.raises(FedkinError) as error:
        predict(folder, str(tmp_path / "new.csv"))
    [line] = str(error.value).splitlines()
    assert line.startswith(f"'{tmp_path / 'new.csv'}' has no columns 'malic_acid', 'ash', ")
    assert line.count("', '") == 11
    assert line.endswith("'proline', which the clients' tables have.")
    frame = pd.read_csv(tables / "north.csv").drop(columns=["hue", "town"]).assign(alcohol=["a", "b"] * 29)
    frame.to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(FedkinError) as error:
        predict(folder, str(tmp_path / "new.csv"))
    assert [line.split(" of ")[0].split(", which")[0] for line in str(error.value).splitlines()] == [
        f"'{tmp_path / 'new.csv'}' has no columns 'hue', 'town'",
        "Column 'alcohol'",
    ]
    for ask in (lambda path: predict(path, "wine"), report, resume):
        with pytest.raises(FedkinError, match=r"did you mean '.*wines-run'\?$"):
            ask(tmp_path / "wine-run")


def test_clients_go_by_the_names_of_their_files_in_errors_and_commands(tables, tmp_path):
    here = [f"data.source='{tables}'", "scenario.name=files", "evaluation.map=none", "method.rounds=1"]
    with pytest.raises(FedkinError, match=r"^Clients north, south, west have no labels, which IFCA needs;"):
        ran(load_config("ifca", here), tmp_path / "unlabelled")
    lost = ["engine.failures=[[" + "],[".join(f"{at},{client}" for at in range(1, 80) for client in range(3)) + "]]"]
    with pytest.raises(FedkinError, match=r"Client (north|south|west) "):
        ran(config(tables, *lost), tmp_path / "lost")
    for path in tables.iterdir():
        frame = pd.read_csv(path)
        frame.assign(label=np.where(frame.index % 2, "u", "v")).to_csv(path, index=False)
    folder = ran(load_config("ifca", here), tmp_path / "labelled").folder
    given = predict(folder, str(tables / "north.csv"), "label", client="north")
    assert given == predict(folder, str(tables / "north.csv"), "label", client="north.csv")
    with pytest.raises(
        FedkinError, match=r"has no client nort; allowed: 0 to 2, or north, south, west; for a new client"
    ):
        predict(folder, str(tables / "north.csv"), "label", client="nort")


def test_new_rows_unlike_those_of_the_run_are_noted(tables, tmp_path):
    folder = ran(config(tables), tmp_path / "run").folder
    frame = pd.read_csv(tables / "north.csv")
    frame.assign(town="Rom", alcohol=1000 * frame["alcohol"]).to_csv(tmp_path / "new.csv", index=False)
    said: list[str] = []
    predict(folder, str(tmp_path / "new.csv"), warn=said.append)
    at, rows = f"of '{tmp_path / 'new.csv'}'", len(frame)
    assert said == [
        f"All values of column 'alcohol' {at} are far from those of the clients; are they in another unit?",
        f"Column 'town' {at} holds 'Rom' in {rows} of {rows} rows; no client has named such a category.",
    ]
    predict(folder, str(tables / "north.csv"), warn=said.append)
    assert len(said) == 2


def test_a_report_begins_with_what_looks_wrong_also_when_it_is_written_again(tables, tmp_path):
    south = pd.read_csv(tables / "south.csv")
    alcohol = south["alcohol"].where(south.index % 4 > 0, 0)
    south.assign(alcohol=alcohol, hue=south["hue"] + 9000).to_csv(tables / "south.csv", index=False)
    outcome = ran(config(tables), tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    said = re.search(r'class="lead">(Something in the data[^<]*)<', page)
    assert said
    assert said[1].startswith("Something in the data looks wrong, and was used as it is: Column 'alcohol' holds 0")
    assert said[1].endswith("See the notes for 1 more.")
    assert any("'hue'" in note for note in outcome.notes)
    (tmp_path / "run" / "report.html").unlink()
    report(tmp_path / "run")
    assert (tmp_path / "run" / "report.html").read_text() == page
