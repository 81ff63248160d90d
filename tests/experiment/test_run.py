import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from fedkin.core import FedkinError
from fedkin.core.payload import load_tree, save_tree
from fedkin.core.progress import Callback
from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute, report, resume
from toy_runs import OPTIONS, files, run

pytestmark = pytest.mark.usefixtures("toy")


def test_a_run_leaves_everything(tmp_path: Path) -> None:
    outcome = run(tmp_path / "run")
    assert set(files(tmp_path / "run")) == {
        "config.toml",
        "records.jsonl",
        "checkpoint.safetensors",
        "labels/client-0.csv",
        "labels/client-1.csv",
        "labels/client-2.csv",
        "result.json",
        "models.safetensors",
        "SHA256SUMS",
        "report.html",
    }
    lines = [json.loads(line) for line in (outcome.folder / "records.jsonl").read_text().splitlines()]
    assert lines == outcome.records
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert lines[0]["values"]["undefined"] is None
    assert all(sorted([*line["answered"], *map(int, line["missing"])]) == [0, 1, 2] for line in lines)
    assert any(line["missing"] for line in lines)
    assert lines[-1]["sent"] > lines[0]["sent"] > 0
    rows = (outcome.folder / "labels" / "client-0.csv").read_text().splitlines()
    assert rows[0] == "row,cluster"
    assert len(rows) == 7
    assert outcome.report.is_file()


def test_the_same_seed_gives_the_same_bytes_whatever_the_chunk(tmp_path: Path) -> None:
    found = {}
    for name, chunk in (("one", 1), ("again", 1), ("all", 3)):
        run(tmp_path / name, f"device.chunk={chunk}")
        found[name] = files(tmp_path / name)
    assert found["one"] == found["again"]
    different = {name for name, content in found["one"].items() if content != found["all"][name]}
    assert different == {"config.toml", "SHA256SUMS", "report.html"}


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    run(tmp_path / "run")
    before = files(tmp_path / "run")
    (tmp_path / "run" / "report.html").unlink()
    resume(tmp_path / "run")
    assert files(tmp_path / "run") == before


def test_a_report_is_written_again(tmp_path: Path) -> None:
    outcome = run(tmp_path / "run")
    page = outcome.report.read_bytes()
    outcome.report.unlink()
    assert report(tmp_path / "run").read_bytes() == page


@pytest.mark.parametrize("content", [None, ""])
def test_lost_records_are_refused(content: str | None, tmp_path: Path) -> None:
    run(tmp_path / "run")
    records = tmp_path / "run" / "records.jsonl"
    records.unlink() if content is None else records.write_text(content)
    (tmp_path / "run" / "SHA256SUMS").unlink()
    with pytest.raises(FedkinError, match="has 0 lines where the checkpoint has 4 steps"):
        resume(tmp_path / "run")


def test_a_checkpoint_of_another_version_is_refused_in_a_sentence(tmp_path: Path) -> None:
    run(tmp_path / "run")
    path = tmp_path / "run" / "checkpoint.safetensors"
    tree = load_tree(path)
    del tree["format"]  # as in version 0.1
    save_tree(path, tree)
    for ask in (resume, report):
        with pytest.raises(FedkinError, match=r"run was written by another version of fedkin \(format"):
            ask(path.parent)
    config = path.parent / "config.toml"
    (path.parent / "SHA256SUMS").unlink()
    config.write_text(config.read_text().replace("[device]", "[engine]"))
    with pytest.raises(FedkinError, match=r"'engine' in .* is of an earlier version; its options are in \[device\]"):
        resume(path.parent)


def test_a_late_step_writes_no_more_than_an_early_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = [0]
    replace, write = os.replace, os.write

    def replaced(source: Path, to: Path) -> None:
        written[-1] += source.stat().st_size
        replace(source, to)

    def appended(handle: int, content: bytes) -> int:
        written[-1] += len(content)
        return write(handle, content)

    class Count(Callback):
        def step(self, line: dict, timing: dict) -> None:
            written.append(0)

    monkeypatch.setattr(os, "replace", replaced)
    monkeypatch.setattr(os, "write", appended)
    config = load_config("toy", [*OPTIONS, "method.rounds=60"])
    execute(config, tmp_path / "run", callbacks=[Count()])
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
    assert calls == ["begin", (0, None, 2), (1, 1, 2), 1, (2, 2, 2), 2, "finished"]
    assert len(outcome.records) == 2
