"""Worker processes end when they take too long, are interrupted or killed, and their runs resume."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin
from fedkin.core import FedkinError
from fedkin.experiment.config import load_config
from fedkin.experiment.run_folder import is_finished
from fedkin.studies.reproduce.command import make_run, run_all
from fedkin.studies.workers import Worker, targets

TOY = ["simulation.scenario=toy", "device.workers=1"]


def call(worker: Worker, folder: Path, *settings: str, seconds: float = 300) -> None:
    tables = load_config("toy", [*TOY, *settings]).tables
    worker.call(make_run, tables, targets(tables), str(folder), [], seconds=seconds)


def test_clients_in_memory_reach_a_process_that_is_no_child_of_torchs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clients = [rng.normal(size=(40, 2)) + 9 * (np.arange(40) % 2)[:, None] for _ in range(2)]
    options = {"methods": "kfed", "n_clusters": 2, "seeds": 1, "budget": "5m"}
    comparison = fedkin.compare(clients, out=tmp_path, **options)
    assert comparison.recommended == "kfed"


def test_what_takes_too_long_is_killed_and_resumes(tmp_path: Path, toy: None, forked_workers: None) -> None:
    slow = ["method.rounds=3", "method.pause=0.5"]
    with Worker() as worker:
        with pytest.raises(TimeoutError):
            call(worker, tmp_path / "run", *slow, seconds=1.2)
        assert worker._process is None
        assert not is_finished(tmp_path / "run")
        call(worker, tmp_path / "run", *slow)
        assert is_finished(tmp_path / "run")


def test_an_interrupted_worker_is_killed(
    tmp_path: Path, toy: None, forked_workers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with Worker() as worker:
        call(worker, tmp_path / "run")
        monkeypatch.setattr(worker._messages, "poll", interrupt)
        with pytest.raises(KeyboardInterrupt):
            call(worker, tmp_path / "second", "method.pause=9")
        assert worker._process is None


def test_a_pool_runs_everything_and_reports_which_process_died(
    tmp_path: Path, toy: None, forked_workers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiments = {f"run-{seed}": load_config("toy", [*TOY, f"seed={seed}"]).tables for seed in range(3)}
    ended: list[tuple[str, str | None]] = []
    assert run_all(experiments, tmp_path, 2, lambda name, why: ended.append((name, why))) == {}
    assert sorted(ended) == [(name, None) for name in experiments]
    assert all(is_finished(tmp_path / name) for name in experiments)
    send = Worker._send

    def send_and_kill(self: Worker, *arguments: Any) -> Any:
        messages = send(self, *arguments)
        assert self._process is not None
        self._process.kill()
        return messages

    monkeypatch.setattr(Worker, "_send", send_and_kill)
    with pytest.raises(FedkinError, match="The process of run run-0 was ended from outside"):
        run_all({"run-0": experiments["run-0"]}, tmp_path / "again", 1, lambda name, why: None)
