import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedkin.core import FedkinError
from fedkin.core.progress import Progress
from fedkin.experiment.config import load_config
from fedkin.experiment.run import resume
from fedkin.experiment.run_folder import is_finished
from fedkin.studies.run_pool import RunWorker, run_all

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


def test_a_worker_makes_runs_one_after_another_and_says_what_is_refused(tmp_path: Path, toy: None) -> None:
    with RunWorker() as worker:
        first, second = Steps(), Steps()
        assert worker.run(load_config("toy", TOY), tmp_path / "first", 300, 300, first)
        process = worker._process
        assert worker.memory > 10**7 or sys.platform != "linux"
        with pytest.raises(FedkinError, match=r"'nowhere.csv' does not exist"):
            worker.run(load_config("kfed", ["data.source=nowhere.csv"]), tmp_path / "refused", 300, 300, Steps())
        with pytest.raises(FedkinError, match="it failed with RuntimeError: The size of tensor"):
            worker.run(load_config("toy", ["data.source=iris"]), tmp_path / "failed", 300, 300, Steps())
        assert worker.run(load_config("toy", [*TOY, "seed=1"]), tmp_path / "second", 300, 300, second)
        assert worker._process is process
        assert first.steps == second.steps == [1, 2, 3, 4]
        assert first.phases[0] == "Reading digits"
        assert worker.run(load_config("toy", TOY), tmp_path / "first", 300, 300, second)
        assert len(second.steps) == 4  # what is finished is not touched
    assert process is not None
    assert process.poll() is not None
    files = [(tmp_path / name / "labels" / "client-0.csv").read_text() for name in ("first", "second")]
    assert all(text.startswith("row,cluster\n") for text in files)


def test_a_run_that_was_stopped_is_resumed(tmp_path: Path, toy: None, forked_workers: None) -> None:
    config = load_config("toy", [*TOY, "method.rounds=3", "method.pause=0.5"])

    class Interrupter(Steps):
        def step(self, line: Any, timing: dict) -> None:
            raise KeyboardInterrupt

    with RunWorker() as worker:
        assert not worker.run(config, tmp_path / "run", 300, 0.0, Steps())  # it has not even started
        assert worker._process is None
        assert not (tmp_path / "run").exists()
        with pytest.raises(KeyboardInterrupt):
            worker.run(config, tmp_path / "run", 300, 300, Interrupter())
        assert worker._process is None
        steps = Steps()
        assert worker.run(config, tmp_path / "run", 300, 300, steps)
        assert not worker.run(load_config("toy", [*TOY, "method.pause=9"]), tmp_path / "long", 0.3, 300, Steps())
        assert worker._process is None
    assert steps.steps in ([2, 3], [3])  # a step may have ended between the message and the signal
    resume(tmp_path / "run")
    assert len((tmp_path / "run" / "records.jsonl").read_text().splitlines()) == 3


def test_a_run_out_of_time_ends_between_two_steps_and_its_process_makes_the_next(
    tmp_path: Path, toy: None, forked_workers: None
) -> None:
    def config(rounds: int, pause: float) -> Any:
        return load_config("toy", [*TOY, f"method.rounds={rounds}", f"method.pause={pause}"])

    with RunWorker() as worker:
        assert worker.run(config(1, 0), tmp_path / "first", 300, 300, Steps())
        process, steps = worker._process, Steps()
        assert not worker.run(config(100, 2), tmp_path / "long", 9, 300, steps)
        assert 1 <= len(steps.steps) < 5
        assert worker._process is process
        assert worker.run(config(1, 5), tmp_path / "one", 9, 300, Steps())  # it is done, whatever another would take
        assert worker._process is process
        assert not is_finished(tmp_path / "long")


def test_a_process_that_dies_is_reported(tmp_path: Path, toy: None) -> None:
    with RunWorker() as worker:
        worker.order(load_config("toy", TOY).tables, tmp_path / "run")
        assert worker._process is not None
        worker._process.kill()
        with pytest.raises(FedkinError, match="its process ended with code -9"):
            worker._next(time.monotonic() + 60)
        assert worker._process is None


def test_a_pool_runs_everything_and_reports_which_process_died(
    tmp_path: Path, toy: None, forked_workers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiments = {f"run-{seed}": load_config("toy", [*TOY, f"seed={seed}"]).tables for seed in range(3)}
    ended: list[tuple[str, str | None]] = []
    assert run_all(experiments, tmp_path, 2, lambda name, why: ended.append((name, why))) == {}
    assert sorted(ended) == [(name, None) for name in experiments]
    assert all(is_finished(tmp_path / name) for name in experiments)
    order = RunWorker.order

    def order_and_kill(self: RunWorker, *arguments: Any) -> None:
        order(self, *arguments)
        assert self._process is not None
        self._process.kill()

    monkeypatch.setattr(RunWorker, "order", order_and_kill)
    with pytest.raises(FedkinError, match="The process of run run-0 was ended from outside"):
        run_all({"run-0": experiments["run-0"]}, tmp_path / "again", 1, lambda name, why: None)


def test_what_many_runs_on_the_same_data_meet_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    rng = np.random.default_rng(0)
    for site in ("north", "south"):
        table = pd.DataFrame(rng.normal(size=(40, 2)), columns=["height", "width"])
        table.insert(0, "key", [f"{site}-{row}" for row in range(len(table))])
        table.to_csv(tmp_path / "data" / f"{site}.csv", index=False)
    settings = [f"data.source={tmp_path / 'data'}", "engine.workers=1", "method.n_clusters=2"]
    tables = {f"run-{seed}": load_config("kfed", [*settings, f"seed={seed}"]).tables for seed in range(3)}
    assert run_all(tables, tmp_path / "runs", 2, lambda name, why: None) == {}
    said = capsys.readouterr().err
    assert said.count("fedkin: Column 'key' names the rows, so it is no feature.\n") == 1


def test_a_note_that_only_advises_something_else_is_not_shown_again(capsys: pytest.CaptureFixture[str]) -> None:
    worker = RunWorker()
    for advice in ("each takes the mean", "they take the median"):
        worker._warn(f"11 cells are empty; {advice}.")
    assert capsys.readouterr().err == "fedkin: 11 cells are empty; each takes the mean.\n"
