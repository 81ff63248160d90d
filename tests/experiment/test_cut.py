"""Cutting a finished run again: the labels of a run that was given the number, and nothing half-written."""

from pathlib import Path

import pytest

from fedkin.core import FedkinError
from fedkin.experiment.config import load_config
from fedkin.experiment.cut import cut
from fedkin.experiment.outputs import load_found
from fedkin.experiment.run import execute

OPTIONS = ["simulation.fraction=0.3", "evaluation.map=pca"]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def labels(folder: Path) -> dict[str, bytes]:
    return contents(folder / "labels")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cut") / "run"
    execute(load_config("kin-graph", OPTIONS), folder)
    return folder


def test_a_cut_is_a_run_that_was_given_the_number(run: Path, tmp_path: Path) -> None:
    before = contents(run)
    outcome = cut(run, tmp_path / "cut", 5)
    assert outcome is not None
    given = execute(load_config("kin-graph", [*OPTIONS, "method.n_clusters=5"]), tmp_path / "given")
    assert contents(run) == before
    assert labels(outcome.folder) == labels(given.folder) != labels(run)
    assert outcome.config == given.config
    for ours, theirs in zip(outcome.records, given.records, strict=True):
        assert ours["values"].items() <= theirs["values"].items()
        assert ours["metrics"] == theirs["metrics"]
        assert ours["answered"] == theirs["answered"]
    received = outcome.records[-1]["received"] - given.records[-1]["received"]
    assert 0 <= received <= 20, "clients were asked for nothing, and answered so"
    assert outcome.records[-1]["sent"] > given.records[-1]["sent"], "they were sent their clusters twice"
    assert load_found(outcome.folder).result["n_clusters"] == 5


def test_a_folder_that_cannot_be_cut_is_refused_and_nothing_is_written(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "kfed"
    execute(load_config("kfed", OPTIONS), other)
    with pytest.raises(FedkinError, match="cannot be cut again: its method keeps no clusters of clusters"):
        cut(other, tmp_path / "cut", 2)
    with pytest.raises(FedkinError, match="holds no run"):
        cut(tmp_path / "nowhere", tmp_path / "cut", 2)
    with pytest.raises(FedkinError, match="is not an empty folder"):
        cut(run, other, 2)
    half = tmp_path / "half"
    half.mkdir()
    for name in ("config.toml", "records.jsonl", "checkpoint.safetensors", "timing.jsonl"):
        (half / name).write_bytes((run / name).read_bytes())
    with pytest.raises(FedkinError, match="has not finished; `fedkin resume"):
        cut(half, tmp_path / "cut", 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["half", "kfed"]
