"""The whole of it on digits: runs in worker processes, tables, pages."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import entries
import forked
from fedkin.cli import main
from fedkin.core.progress import Progress
from fedkin.experiment.run_folder import CONFIG
from fedkin.studies.reproduce.command import plans_of, reproduce, run_all


class KeptParts(Progress):
    def __init__(self) -> None:
        self.parts: list[tuple[int, int]] = []

    def part(self, done: int, total: int) -> None:
        self.parts.append((done, total))


pytestmark = pytest.mark.usefixtures("forked_workers")


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
    text = (out / "try" / "quick" / "table.md").read_text()
    assert "A third of the data." in text
    assert "Ours beside the paper's (in brackets): ≈ one seed: near, △ one seed: higher." in text
    assert f"fedkin reproduce {path} --scale quick" in text
    assert (out / "try" / "quick" / "report.html").exists()


def test_what_is_there_is_not_run_again(
    reproduced: tuple[Path, Path, KeptParts], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out, _ = reproduced
    monkeypatch.setattr("fedkin.studies.reproduce.command.run_all", None)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", str(path), "--out", str(out)])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert re.search(r"^ *k-FED +0\.", printed, re.MULTILINE)
    assert "|--" not in printed


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
    seen: list[str] = []
    failed = run_all({"bad": tables, good.name: good.tables}, runs, 1, lambda name, why: seen.append(name))
    assert set(seen) == {"bad", good.name}
    assert list(failed) == ["bad"]
    assert "'nothing.csv' does not exist" in failed["bad"]
    for name in ("records.jsonl", "result.json"):
        assert (runs / good.name / name).read_bytes() == (out / "runs" / good.name / name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing"], "fedkin: Unknown entry 'nothing'"),
        (["all", "--scale", "huge"], "fedkin: Invalid value for '--scale': 'huge' is not one of 'quick', 'paper'."),
        (["none.toml"], "fedkin: Cannot read none.toml"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", *arguments, "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(sentence)
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    path = entries.written(tmp_path)
    words = ["reproduce", str(path), "--out", str(tmp_path / "out"), "--jobs", "1"]
    parent = forked.Program(tmp_path, tmp_path / "log", forked.fedkin, words).process
    tasks = Path(f"/proc/{parent.pid}/task")
    try:
        _wait_until(lambda: (tmp_path / "out" / "runs").is_dir())
        children = " ".join(file.read_text() for file in tasks.glob("*/children"))
        workers = [Path("/proc") / child for child in children.split()]
        assert workers
    finally:
        parent.kill()
        parent.join()
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
