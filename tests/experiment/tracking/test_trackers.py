"""What all tools have in common, with one that only listens."""

from pathlib import Path
from typing import Any

import pytest

from fedkin.experiment.run import resume
from fedkin.experiment.tracking import TOOLS
from tracked import Listens, Warned, interrupt, results, run

TO = "tracking.to=['tensorboard']"


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch, toy: None) -> list[Any]:
    """What the tool "tensorboard", which here only listens, has got."""
    monkeypatch.setattr(Listens, "calls", [])
    monkeypatch.setattr(Listens, "fails", lambda call, step: False, raising=False)
    monkeypatch.setitem(TOOLS, "tensorboard", Listens)
    return Listens.calls


def test_every_step_is_sent_once_and_files_at_the_end(tmp_path: Path, calls: list[Any]) -> None:
    run(tmp_path / "first", TO)
    assert calls == [("begin", "first", None), 1, 2, 3, 4, ("finished", ["result.json", "report.html"])]
    run(tmp_path / "second", TO, "tracking.name=other", "tracking.artifacts=false")
    assert calls[6] == ("begin", "other", None)
    assert calls[-1] == ("finished", [])


def test_tracking_changes_no_result(tmp_path: Path) -> None:
    run(tmp_path / "untracked")
    run(tmp_path / "tracked", TO, "tracking.name=other")
    assert results(tmp_path / "untracked") == results(tmp_path / "tracked")


def test_a_run_that_resumes_is_resumed_there_too(
    tmp_path: Path, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(tmp_path / "run", 2, monkeypatch, TO)
    assert calls == [("begin", "run", None), 1, 2, ("interrupted", [])]
    resume(tmp_path / "run")
    assert calls[4:] == [("begin", "run", {"id": "seven"}), 3, 4, ("finished", ["result.json", "report.html"])]
    resume(tmp_path / "run")
    assert calls[8:] == [("begin", "run", {"id": "seven"}), ("finished", ["result.json", "report.html"])]


def test_a_lost_tool_is_one_warning_and_the_run_continues(
    tmp_path: Path, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Listens, "fails", lambda call, step: step == 2)
    warned = Warned()
    run(tmp_path / "run", TO, progress=warned)
    assert warned.texts == [
        f"Listener could not be reached for {tmp_path / 'run'} after step 1 (Nobody there); the run continues, and "
        f"`fedkin track {tmp_path / 'run'}` sends the rest."
    ]
    assert calls == [("begin", "run", None), 1]
    run(tmp_path / "untracked")
    assert results(tmp_path / "untracked") == results(tmp_path / "run")
