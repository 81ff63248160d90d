"""The whole of it on digits: runs in worker processes, tables, pages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import entries
from fedkin.cli import main
from fedkin.core.runner import Progress
from fedkin.experiment.run_folder import CONFIG
from fedkin.studies.reproduce.command import plans_of, reproduce, run_all


class KeptParts(Progress):
    def __init__(self) -> None:
        self.parts: list[tuple[int, int]] = []

    def part(self, done: int, total: int) -> None:
        self.parts.append((done, total))


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, KeptParts]:
    folder = tmp_path_factory.mktemp("reproduced")
    path, reported = entries.written(folder), KeptParts()
    reproduce(plans_of([str(path)], "quick"), folder / "out", 1, reported)
    return path, folder / "out", reported


def test_an_entry_is_run_and_set_beside_the_paper(reproduced: tuple[Path, Path, KeptParts]) -> None:
    path, out, reported = reproduced
    table = json.loads((out / "try" / "quick" / "table.json").read_text())
    cells = {(cell["row"], cell["column"]): cell for cell in table["cells"]}
    assert (table["runs"], table["finished"]) == (4, 4)
    assert cells["k-FED", "p = 0"]["verdict"] == "one seed: higher"
    assert cells["k-FED", "p = 1"]["verdict"] == "one seed: near"
    assert cells["k-means", "p = 0"]["verdict"] == ""
    assert cells["k-means", "p = 0"]["ours"]["value"] > 0.5
    assert table["claims"][0]["holds"] == "holds"
    assert reported.parts[-5:] == [(count, 4) for count in range(5)]
    page = (out / "try" / "quick" / "report.html").read_text()
    assert all(text in page for text in ("A third of the data.", f"fedkin reproduce {path} --scale quick"))


def test_what_is_there_is_not_run_again(
    reproduced: tuple[Path, Path, KeptParts], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out, _ = reproduced
    monkeypatch.setattr("fedkin.studies.reproduce.command.make_run", None)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", str(path), "--out", str(out)])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert re.search(r"^k-FED +0\.\d+ \(0\.100\) △ ", printed, re.MULTILINE)
    assert "△ one seed: higher" in printed
    assert f"fedkin reproduce {path} --scale quick" in printed


def test_a_stopped_run_goes_on_and_a_failed_one_stops_nobody(
    reproduced: tuple[Path, Path, KeptParts], tmp_path: Path
) -> None:
    """A folder that holds the beginning of a run, as a killed worker leaves it, ends as one that was never stopped."""
    path, out, _ = reproduced
    (plan,) = plans_of([str(path)], "quick")
    good, bad = [run for run, _ in plan.runs().values()][:2]
    runs = tmp_path / "runs"
    (runs / good.name).mkdir(parents=True)
    (runs / good.name / CONFIG).write_bytes((out / "runs" / good.name / CONFIG).read_bytes())
    tables = {**bad.tables, "data": {**bad.tables["data"], "source": "nothing.csv"}}
    ended = list(run_all({"bad": (tables, ()), good.name: (good.tables, ())}, runs, 1))
    assert [name for name, _, _ in ended] == ["bad", good.name]
    assert "'nothing.csv' does not exist" in ended[0][1]
    assert ended[1][1] == ""
    for name in ("records.jsonl", "result.json"):
        assert (runs / good.name / name).read_bytes() == (out / "runs" / good.name / name).read_bytes()


def test_bad_input_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for arguments in (["nothing"], ["all", "--scale", "huge"], ["none.toml"]):
        with pytest.raises(SystemExit) as ended:
            main(["reproduce", *arguments, "--out", str(tmp_path / "out")])
        assert ended.value.code == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_runs_in_parallel_are_those_of_one_process(reproduced: tuple[Path, Path, KeptParts], tmp_path: Path) -> None:
    path, out, _ = reproduced
    plans = plans_of([str(path)], "quick")
    assert reproduce(plans, tmp_path, 2, Progress())[1] == {}
    for name in plans[0].runs():
        for file in ("records.jsonl", "result.json"):
            assert (tmp_path / "runs" / name / file).read_bytes() == (out / "runs" / name / file).read_bytes()


@pytest.mark.long
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    path = entries.written(tmp_path)
    words = [sys.executable, "-m", "fedkin", "reproduce", str(path), "--out", str(tmp_path / "out"), "--jobs", "2"]
    parent = subprocess.Popen(words, start_new_session=True)
    tasks = Path(f"/proc/{parent.pid}/task")
    try:
        _wait_until(lambda: (tmp_path / "out" / "runs").is_dir())
        children = " ".join(file.read_text() for file in tasks.glob("*/children"))
        workers = [Path("/proc") / child for child in children.split()]
        assert len(workers) >= 2
    finally:
        parent.kill()
        parent.wait()
    _wait_until(lambda: not any(_alive(worker) for worker in workers))


def _alive(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _wait_until(met: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end
        time.sleep(0.1)
