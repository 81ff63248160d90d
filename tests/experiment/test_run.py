"""What a run leaves, in which order it calls, and what it says of clusters."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine

import fedkin
from fedkin.core import FedkinError
from fedkin.core.client import Column, Table
from fedkin.core.payload import load_tree, save_tree
from fedkin.core.runner import Callback
from fedkin.engines.local import LocalFederation
from fedkin.experiment import run_folder
from fedkin.experiment.config import load_config
from fedkin.experiment.outcome import print_outcome
from fedkin.experiment.run import execute, resume
from fedkin.experiment.run_folder import restore_checkpoint, snapshot
from fedkin.experiment.terminal import Bar, Quiet
from toy import Blobs, Toy, ToyState
from toy_runs import OPTIONS, files, run

pytestmark = pytest.mark.usefixtures("toy")


def test_a_run_leaves_everything(tmp_path: Path) -> None:
    outcome = run(tmp_path / "run")
    assert set(files(tmp_path / "run")) == {
        "config.toml", "records.jsonl", "checkpoint.safetensors", "labels/client-0.csv", "labels/client-1.csv",
        "labels/client-2.csv", "result.json", "models.safetensors", "report.html", "messages.json",
    }  # fmt: skip
    lines = [json.loads(line) for line in (outcome.folder / "records.jsonl").read_text().splitlines()]
    assert lines == outcome.records
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert lines[0]["values"]["undefined"] is None
    assert all(sorted([*line["answered"], *map(int, line["missing"])]) == [0, 1, 2] for line in lines)
    assert any(line["missing"] for line in lines)
    assert lines[-1]["sent"] > lines[0]["sent"] > 0
    rows = (outcome.folder / "labels" / "client-0.csv").read_text().splitlines()
    assert (rows[0], len(rows)) == ("row,cluster", 7)


def test_the_same_seed_gives_the_same_bytes_whatever_the_chunk(tmp_path: Path) -> None:
    contents = {}
    for name, chunk in (("one", 1), ("again", 1), ("all", 3)):
        run(tmp_path / name, f"device.chunk={chunk}")
        contents[name] = files(tmp_path / name)
    assert contents["one"] == contents["again"]
    different = {name for name, content in contents["one"].items() if content != contents["all"][name]}
    assert different == {"config.toml", "report.html"}


def test_resuming_a_finished_run_writes_its_report_again_and_changes_nothing(tmp_path: Path) -> None:
    outcome = run(tmp_path / "run")
    before = files(tmp_path / "run")
    outcome.report.unlink()
    resume(tmp_path / "run")
    assert files(tmp_path / "run") == before


@pytest.mark.parametrize("content", [None, ""])
def test_lost_records_are_refused(content: str | None, tmp_path: Path) -> None:
    run(tmp_path / "run")
    records = tmp_path / "run" / "records.jsonl"
    records.unlink() if content is None else records.write_text(content)
    with pytest.raises(FedkinError, match="has 0 lines where the checkpoint has 4 steps"):
        resume(tmp_path / "run")


def test_a_checkpoint_of_another_version_is_refused_in_a_sentence(tmp_path: Path) -> None:
    run(tmp_path / "run")
    path = tmp_path / "run" / "checkpoint.safetensors"
    tree = load_tree(path)
    del tree["format"]  # as in version 0.1
    save_tree(path, tree)
    with pytest.raises(FedkinError, match=r"run was written by another version of fedkin \(format"):
        resume(path.parent)


def test_going_on_from_a_checkpoint_is_going_on(tmp_path: Path) -> None:
    fed, method = LocalFederation(Blobs("digits", clients=12).build(0).clients, seed=5), Toy()
    state = method.step(fed, method.init(fed))[0]
    before = fed.exchange, fed.sent, fed.received
    save_tree(tmp_path / "checkpoint", snapshot(fed, state))
    state = restore_checkpoint(fed, ToyState, snapshot(fed, state))
    fresh = LocalFederation(Blobs("digits", clients=12).build(0).clients, seed=5)
    resumed = restore_checkpoint(fresh, ToyState, load_tree(tmp_path / "checkpoint"))
    assert resumed.pair == state.pair == (12,)
    assert (fresh.exchange, fresh.sent, fresh.received) == (fed.exchange, fed.sent, fed.received) == before
    for name, federation, before in (("straight", fed, state), ("resumed", fresh, resumed)):
        save_tree(tmp_path / name, snapshot(federation, method.step(federation, before)[0]))
    assert (tmp_path / "straight").read_bytes() == (tmp_path / "resumed").read_bytes()


def test_a_late_step_writes_no_more_than_an_early_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = [0]
    move, write = os.replace, os.write

    def moved(source: Path, to: Path) -> None:
        written[-1] += source.stat().st_size
        move(source, to)

    def appended(handle: int, content: bytes) -> int:
        written[-1] += len(content)
        return write(handle, content)

    class Count(Callback):
        def step(self, line: dict, timing: dict) -> None:
            written.append(0)

    monkeypatch.setattr(os, "replace", moved)
    monkeypatch.setattr(os, "write", appended)
    execute(load_config("toy", [*OPTIONS, "method.rounds=60"]), tmp_path / "run", callbacks=[Count()])
    assert 0 < written[59] < 1.3 * written[4]  # a checkpoint of the toy's grows by a digit per step


def test_callbacks_follow_a_run_and_stop_it(tmp_path: Path) -> None:
    calls: list[object] = []

    class Second(Callback):
        def begin(self) -> None:
            calls.append("begin")

        def stops(self, line: dict) -> bool:
            return line["step"] == 2

        def checkpoint(self, tree: Mapping[str, object], timing: dict, line: dict | None) -> None:
            calls.append((timing["step"], line and line["step"], tree["format"]))

        def step(self, line: dict, timing: dict) -> None:
            calls.append(line["step"])

        def end(self, status: str) -> None:
            calls.append(status)

    outcome = execute(load_config("toy", OPTIONS), tmp_path / "run", callbacks=[Second()])
    assert calls == ["begin", (0, None, 3), (1, 1, 3), 1, (2, 2, 3), 2, "finished"]
    assert len(outcome.records) == 2


def stopped(values: list[float | None], patience: int, monitor: str = "score") -> int | None:
    """The step that early stopping ends a run with."""
    stop = fedkin.EarlyStopping(monitor, patience)
    for step, value in enumerate(values, 1):
        if stop.stops({"step": step, "values": {}, "metrics": {monitor: value}}):
            return step
    return None


def test_early_stopping_ends_after_so_many_rounds_without_a_better_one() -> None:
    assert stopped([1, 2, 2, 2, 3], patience=2) == 4
    assert stopped([1, 2, 2, 3, 3], patience=2) is None
    assert stopped([3, 2, 1, 1], patience=1, monitor="held_out_loss") == 4
    assert stopped([None, float("nan")], patience=2) == 2
    with pytest.raises(FedkinError, match="patience is 0"):
        fedkin.EarlyStopping(patience=0)
    with pytest.raises(FedkinError, match=r"'validation_personal_accuracy', which is not measured in step 1"):
        fedkin.EarlyStopping().stops({"step": 1, "values": {"loss": 1.0}, "metrics": {}})


# What a run says of its clusters.


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
    for position, name in enumerate(("north", "south", "west")):
        frame[holder == position].to_csv(tmp_path / "wines" / f"{name}.csv", index=False)
    return tmp_path / "wines"


def of_tables(method: str, tables: Path, folder: Path, *more: str):
    settings = [f"data.source='{tables}'", "evaluation.map=none", *more]
    return execute(load_config(method, settings), folder, Quiet())


def test_a_run_on_tables_says_what_its_clusters_are(tables, tmp_path, capsys):
    outcome = of_tables("ffcm", tables, tmp_path / "run", "method.n_clusters=3")
    print_outcome(outcome)
    printed = capsys.readouterr().out
    page = outcome.report.read_text()
    for words in ("low flavanoids (0.8", "high proline", "against"):
        assert words in printed
        assert words in page
    assert "town" not in printed.split("Report:")[0]
    assert "west" in printed
    assert "north.csv" not in printed
    assert (sum(outcome.sizes), outcome.n_clusters) == (178, 3)
    profile = run_folder.load_found(outcome.folder).profile
    assert profile is not None
    assert [column.name for column in profile.columns][-1] == "town"


def test_nothing_of_a_run_depends_on_the_profile(tables, tmp_path, monkeypatch):
    described = of_tables("ffcm", tables, tmp_path / "with", "method.n_clusters=3").folder
    monkeypatch.setattr("fedkin.data.profile.profile_clusters", lambda *_: None)
    bare = of_tables("ffcm", tables, tmp_path / "without", "method.n_clusters=3").folder
    for name in ("records.jsonl", "checkpoint.safetensors", "labels/north.csv"):
        assert (described / name).read_bytes() == (bare / name).read_bytes()
    assert json.loads((described / "result.json").read_text())["profile"]
    assert json.loads((bare / "result.json").read_text())["profile"] is None


def test_a_private_run_asks_for_no_profile(tables, tmp_path):
    outcome = of_tables("kin-graph", tables, tmp_path / "run", "method.epsilon=50.0")
    saved = run_folder.load_found(outcome.folder)
    assert (saved.profile, saved.words) == (None, [])


def test_the_bar_shows_each_step_and_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    line = {
        "step": 3, "answered": [0], "missing": {"1": "no reply"}, "values": {"clusters": 4, "accuracy": 0.1},
        "metrics": {"accuracy": 0.98765}, "sent": 1_234_567, "received": 5_000_000_000_000,
    }  # fmt: skip
    with Bar() as bar:
        bar.phase("Step 3")
        bar.part(1, 2)
        assert (bar.display.tasks[0].completed, bar.display.tasks[0].total) == (1, 2)
        bar.step(line, {"seconds": 2.51})
        bar.warn("[All] is gone.")
    shown = capsys.readouterr()
    assert "Step 3 · 2.5 s · Clusters found 4 · Local accuracy 0.988\n" in shown.err
    assert "fedkin: [All] is gone.\n" in shown.err
    assert shown.out == ""


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], ["client-0", "client-1"]),
        (["north.csv", "south.parquet"], ["north", "south"]),
        (["a.csv", "a.parquet"], ["a.csv", "a.parquet"]),
        (["ward/1", "St. Gallen"], ["client-0", "St. Gallen"]),
        (["Ulm", "ulm"], ["client-0", "client-1"]),
        (["..", "client-1"], ["client-0", "client-1"]),
        (["a" * 300, "é" * 130], ["client-0", "client-1"]),
        (["\u00e9", "e\u0301"], ["\u00e9", "client-1"]),
    ],
)
def test_files_of_labels_are_called_after_what_the_data_came_from(names, expected):
    paths = [run_folder.label_file(Path("run"), i, names) for i in range(2)]
    assert paths == [Path(f"run/labels/{name}.csv") for name in expected]


def test_ids_and_confidence_stand_beside_the_clusters():
    cells = torch.tensor([[0, 7], [1, float("nan")]]).double()
    table = Table((Column("patient", "category", ("P,1", "P2")), Column("nr")), cells)
    clusters, confidence = torch.tensor([1, 0]), torch.tensor([0.25, 1.0])

    def written(confidence, name):
        columns = run_folder.row_names(2, table, name) | run_folder.cluster_columns(clusters, confidence)
        return run_folder.as_csv(columns)

    assert written(confidence, "patient") == 'row,patient,cluster,confidence\n0,"P,1",1,0.2500\n1,P2,0,1.0000\n'
    assert written(None, "nr") == "row,nr,cluster\n0,7,1\n1,,0\n"
    assert written(None, "absent") == "row,cluster\n0,1\n1,0\n"


def test_no_text_is_a_formula_to_a_spreadsheet():
    cells = ["=1+1", "@SUM(A1)", "-2+3", "-1.5", "+3", -2, "a=b"]
    text = run_folder.as_csv({f"={i}": [cell] for i, cell in enumerate(cells)})
    assert text == "'=0,'=1,'=2,'=3,'=4,'=5,'=6\n'=1+1,'@SUM(A1),'-2+3,-1.5,+3,-2,a=b\n"
