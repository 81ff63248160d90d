"""Runs on tables: what they say of clusters, and that saying it changes nothing."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine

from fedkin.experiment import run as run_module
from fedkin.experiment.config import load_config
from fedkin.experiment.outputs import load_profile
from fedkin.experiment.run import execute
from fedkin.experiment.terminal import Quiet, print_outcome


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
    settings = [f"data.source='{tables}'", "simulation.scenario=files", "method.n_clusters=3", "evaluation.map=none"]
    return load_config("ffcm", [*settings, *more])


def ran(config, folder):
    return execute(config, folder, Quiet())


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


def test_nothing_of_a_run_depends_on_the_profile(tables, tmp_path, monkeypatch):
    with_it = ran(config(tables), tmp_path / "with").folder
    monkeypatch.setattr(run_module, "profile_clusters", lambda *_: None)
    without = ran(config(tables), tmp_path / "without").folder
    for name in ("records.jsonl", "checkpoint.safetensors", "labels/north.csv"):
        assert (with_it / name).read_bytes() == (without / name).read_bytes()
    assert json.loads((without / "result.json").read_text())["profile"] is None


def test_a_private_run_asks_for_no_profile(tables, tmp_path):
    private = load_config(
        "kin-graph",
        [f"data.source='{tables}'", "simulation.scenario=files", "method.epsilon=50.0", "evaluation.map=none"],
    )
    assert load_profile(ran(private, tmp_path / "run").folder) is None
