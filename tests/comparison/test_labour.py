import time
from pathlib import Path
from typing import Any

import pytest

from fedkin.comparison.labour import Worker
from fedkin.config import load_config
from fedkin.core import FedkinError
from fedkin.run import Progress, resume

TOY = ["scenario.name=toy", "engine.workers=1"]


class Heard(Progress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.steps: list[Any] = []

    def phase(self, text: str) -> None:
        self.phases.append(text)

    def step(self, line: Any, seconds: float) -> None:
        self.steps.append(line["step"])


def test_a_worker_makes_runs_one_after_another(tmp_path: Path, toy: None) -> None:
    with Worker() as worker:
        first, second = Heard(), Heard()
        assert worker.run(load_config("toy", TOY), tmp_path / "first", 300, first)
        process = worker._process
        assert worker.run(load_config("toy", [*TOY, "seed=1"]), tmp_path / "second", 300, second)
        assert worker._process is process
        assert first.steps == second.steps == [1, 2, 3, 4]
        assert first.phases[0] == "Reading digits"
        assert worker.run(load_config("toy", TOY), tmp_path / "first", 300, second)
        assert len(second.steps) == 4
    assert process is not None
    assert process.poll() is not None
    files = [(tmp_path / name / "labels" / "site-0.csv").read_text() for name in ("first", "second")]
    assert all(text.startswith("row,group\n") for text in files)


def test_a_run_whose_time_is_over_is_killed_and_gone_on_with(tmp_path: Path, toy: None) -> None:
    config = load_config("toy", [*TOY, "method.rounds=3", "method.pause=1"])
    began = time.monotonic()
    with Worker() as worker:
        heard = Heard()
        assert not worker.run(config, tmp_path / "run", 0.1, heard)
        assert worker._process is None
        assert time.monotonic() - began < 60
        assert worker.run(config, tmp_path / "run", 300, heard)
    assert heard.steps == [1, 2, 3]
    whole = [path.read_bytes() for path in sorted((tmp_path / "run").rglob("site-*.csv"))]
    resume(tmp_path / "run")
    assert [path.read_bytes() for path in sorted((tmp_path / "run").rglob("site-*.csv"))] == whole


def test_what_a_run_refuses_comes_back(tmp_path: Path, toy: None) -> None:
    with Worker() as worker:
        with pytest.raises(FedkinError, match=r"Cannot read|does not exist|nowhere"):
            worker.run(load_config("kfed", ["data.source=./nowhere.csv"]), tmp_path / "run", 300, Heard())
        with pytest.raises(FedkinError, match="it failed with RuntimeError: The size of tensor"):
            worker.run(load_config("toy", ["data.source=iris"]), tmp_path / "other", 300, Heard())
        assert worker.run(load_config("toy", TOY), tmp_path / "third", 300, Heard())


def test_a_process_that_dies_is_told(tmp_path: Path, toy: None) -> None:
    config = load_config("toy", [*TOY, "method.pause=2"])

    class Killer(Heard):
        def phase(self, text: str) -> None:
            if worker._process is not None:
                worker._process.kill()

    with Worker() as worker:
        with pytest.raises(FedkinError, match="its process ended with code -9"):
            worker.run(config, tmp_path / "run", 300, Killer())
        assert worker.run(load_config("toy", TOY), tmp_path / "other", 300, Heard())
