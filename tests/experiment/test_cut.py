"""Cutting a finished run again: the labels of a run that was given the number, and nothing half-written."""

import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core import FedkinError
from fedkin.experiment.config import load_config
from fedkin.experiment.cut import cut
from fedkin.experiment.outputs import load_found
from fedkin.experiment.run import execute
from fedkin.experiment.run_folder import is_finished
from fuzzing import damaged_bytes, fuzzed

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


@pytest.mark.filterwarnings("ignore:.*timing.jsonl was damaged:UserWarning")
def test_a_damaged_run_is_cut_or_refused_and_nothing_is_left_half_written(tmp_path: Path) -> None:
    data, whole = tmp_path / "data", tmp_path / "whole"
    data.mkdir()
    for name, low in (("north", 0), ("south", 1)):
        rows = [f"{(i * 7) % 11 + low},{(i * 5) % 13 + 30 * (i % 2)}" for i in range(40)]
        (data / f"{name}.csv").write_text("\n".join(["a,b", *rows]) + "\n")
    options = [
        f"data.source={str(data)!r}",
        "simulation.scenario='files'",
        "method.min_members=2",
        "evaluation.map='none'",
    ]
    execute(load_config("kin-graph", options), whole)
    names = ["config.toml", "records.jsonl", "timing.jsonl", "checkpoint.safetensors", "result.json"]
    contents_of, folder, out = {name: (whole / name).read_bytes() for name in names}, tmp_path / "run", tmp_path / "out"
    ends = Counter[bool]()

    @fuzzed(16, 2)
    @given(st.sampled_from(names).flatmap(lambda name: st.tuples(st.just(name), damaged_bytes(contents_of[name]))))
    def check(damage: tuple[str, bytes]) -> None:
        name, content = damage
        for path in (folder, out):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(whole, folder)
        (folder / name).write_bytes(content)
        with suppress(FedkinError):
            cut(folder, out, 3)
        ends[out.exists()] += 1
        assert not out.exists() or is_finished(out)

    check()
    assert ends[False] > 1
    assert ends[True] > 1
