from pathlib import Path
from typing import Any

import pytest

from fedkin.core import FedkinError
from fedkin.core.progress import Progress
from fedkin.experiment.config import load_config
from fedkin.experiment.run_folder import is_finished
from fedkin.studies.workers import Worker, make_run, run_all, targets

TOY = ["scenario.name=toy", "engine.workers=1"]


class Steps(Progress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.steps: list[Any] = []

    def phase(self, text: str) -> None:
        self.phases.append(text)

    def step(self, line: Any, timing: dict) -> None:
        self.steps.append(line["step"])


def call(worker: Worker, folder: Path, *settings: str, seconds: float = 300, progress: Any = None) -> None:
    tables = load_config("toy", [*TOY, *settings]).tables
    worker.call(make_run, tables, targets(tables), str(folder), [], None, seconds=seconds, progress=progress or Steps())


def test_what_takes_too_long_or_is_interrupted_is_killed_and_resumes(
    tmp_path: Path, toy: None, forked_workers: None
) -> None:
    class Interrupter(Steps):
        def step(self, line: Any, timing: dict) -> None:
            raise KeyboardInterrupt

    slow = ["method.rounds=3", "method.pause=0.5"]
    with Worker() as worker:
        with pytest.raises(KeyboardInterrupt):
            call(worker, tmp_path / "run", *slow, progress=Interrupter())
        assert worker._process is None
        steps = Steps()
        call(worker, tmp_path / "run", *slow, progress=steps)
        with pytest.raises(TimeoutError):
            call(worker, tmp_path / "long", "method.pause=9", seconds=0.3)
        assert worker._process is None
    assert steps.steps in ([2, 3], [3])  # a step may have ended between the message and the signal


def test_a_pool_runs_everything_and_reports_which_process_died(
    tmp_path: Path, toy: None, forked_workers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiments = {f"run-{seed}": load_config("toy", [*TOY, f"seed={seed}"]).tables for seed in range(3)}
    ended: list[tuple[str, str | None]] = []
    assert run_all(experiments, tmp_path, 2, lambda name, why: ended.append((name, why))) == {}
    assert sorted(ended) == [(name, None) for name in experiments]
    assert all(is_finished(tmp_path / name) for name in experiments)
    order = Worker.order

    def order_and_kill(self: Worker, *arguments: Any) -> None:
        order(self, *arguments)
        assert self._process is not None
        self._process.kill()

    monkeypatch.setattr(Worker, "order", order_and_kill)
    with pytest.raises(FedkinError, match="The process of run run-0 was ended from outside"):
        run_all({"run-0": experiments["run-0"]}, tmp_path / "again", 1, lambda name, why: None)
