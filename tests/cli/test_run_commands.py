"""Runs from the shell: for programs, quiet, dry, interrupted; and encoders."""

import json
import os
import shlex
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import forked
from fedkin.experiment.config import load_config
from fedkin.experiment.run_folder import load_found
from shell import fedkin


def test_a_run_for_programs_and_a_quiet_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    start = ["run", "toy", "--scenario", "toy", "--clients", "2", "--out"]
    assert fedkin(*start, "a", "--json") == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert {key: found[key] for key in ("run", "method", "seed", "step", "missing", "report")} == {
        "run": "a", "method": "toy", "seed": 0, "step": 4, "missing": {}, "report": "a/report.html"
    }  # fmt: skip
    assert found["values"]["first"] is not None
    assert found["seconds"] >= 0
    assert fedkin(*start, "b", "--quiet") == 0
    assert fedkin("resume", "b", "-q") == 0
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "b" / "report.html").is_file()


def test_a_dry_run_checks_all_and_writes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:

    assert fedkin("run", "kfed", "--clusters", "7", "--dry-run") == 0
    shown = capsys.readouterr().out
    settings, data = shown.split("\n\n# ", 1)
    assert settings == load_config("kfed", ["method.n_clusters=7"]).to_toml().rstrip()
    assert data.splitlines()[0] == "Data: 10 clients, 1,797 samples, 179 to 180 each. A sample has the shape 1 x 8 x 8."
    (tmp_path / "notes.txt").touch()
    for words, sentence in (("--clusters 0", "'method.n_clusters' is 0"), ("--out .", ". is not an empty folder")):
        assert fedkin("run", "kfed", "--dry-run", *words.split()) == 2
        assert capsys.readouterr().err.startswith(f"fedkin: {sentence}"), words
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_run_resume_report_predict(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Path("a b/c=d").mkdir(parents=True)
    assert fedkin("run", "toy", "--scenario", "toy", "--clients", "2", "--seed", "4", "--data", "a b/c=d") == 0
    folder = "runs/toy-c-d-seed4"
    shown = capsys.readouterr()
    assert shown.err == ""
    assert ["Steps", "4"] in [line.split() for line in shown.out.splitlines()]
    assert shown.out.splitlines()[-1] == f"Report: {folder}/report.html"
    assert 'source = "a b/c=d"' in (tmp_path / folder / "config.toml").read_text()
    assert fedkin("run", f"{folder}/config.toml") == 0
    assert (tmp_path / f"{folder}-2" / "result.json").read_bytes() == (tmp_path / folder / "result.json").read_bytes()
    assert fedkin("resume", folder) == 0
    capsys.readouterr()
    np.savez(tmp_path / "new.npz", x=np.array([[-9.0, 0.0], [9.0, 0.0]], dtype=np.float32))
    assert fedkin("predict", folder, "new.npz") == 0
    assert capsys.readouterr().out == "row,cluster\n0,0\n1,1\n"
    assert fedkin("predict", folder, "new.npz", "--out", "new.csv") == 0
    assert (tmp_path / "new.csv").read_text() == "row,cluster\n0,0\n1,1\n"
    (tmp_path / "both").mkdir()
    for name in ("south", "north"):
        shutil.copy(tmp_path / "new.npz", tmp_path / "both" / f"{name}.npz")
    assert fedkin("predict", folder, "both") == 0
    assert capsys.readouterr().out == "client,row,cluster\nnorth,0,0\nnorth,1,1\nsouth,0,0\nsouth,1,1\n"


def test_control_c_reaches_a_run(tmp_path: Path) -> None:
    arguments = shlex.split("run toy --scenario toy --out run --set method.rounds=1000 --set method.pause=0.05")
    program = forked.Program(tmp_path, tmp_path / "log", forked.fedkin, arguments, None, True)
    deadline = time.monotonic() + 300
    while not (tmp_path / "run" / "records.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(program.process.pid or 0, signal.SIGINT)
    code, _, complaint = program.ended()
    assert code == 130
    assert complaint == "fedkin: Interrupted; resume with `fedkin resume run`.\n"
    assert not list((tmp_path / "run").rglob("*.partial"))


def test_cluster_is_kin_graph(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ("--clusters", "3", "--clients", "3")
    assert fedkin("cluster", "iris", *options, "--out", str(tmp_path / "cluster")) == 0
    assert fedkin("run", "kin-graph", "iris", "--scenario", "iid", *options, "-q", "--out", str(tmp_path / "run")) == 0
    for name in ("config.toml", "result.json", "models.safetensors"):
        assert (tmp_path / "cluster" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()

    folder = tmp_path / "clients"
    folder.mkdir()
    for client in ("north", "south"):
        rows = "".join(f"{value},{value % 2 * 50}\n" for value in range(40))
        (folder / f"{client}.csv").write_text(f"age,dose\n{rows}")
    capsys.readouterr()
    assert fedkin("cluster", str(folder), "--json", "--out", str(tmp_path / "files")) == 0
    found = json.loads(capsys.readouterr().out)
    sizes = [0] * found["n_clusters"]
    for path in (tmp_path / "files" / "labels").iterdir():
        for row in path.read_text().splitlines()[1:]:
            sizes[int(row.split(",")[1])] += 1
    assert found["sizes"] == sizes
    assert len(found["sentences"]) >= found["n_clusters"]
    assert not [note for note in load_found(tmp_path / "files").preparation.notes if note not in found["notes"]]
    assert sorted(path.name for path in (tmp_path / "files" / "labels").iterdir()) == ["north.csv", "south.csv"]
