"""Runs as tracking tools get them, and that tracking changes nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fedkin.core.runner import Progress
from fedkin.experiment.callbacks import TOOLS
from fedkin.experiment.config import Config, load_config
from fedkin.experiment.run import RunOutcome, execute, resume
from toy_runs import OPTIONS

pytestmark = pytest.mark.usefixtures("toy")
TO = "tracking.to=['tensorboard']"
OWN = ("config.toml", "SHA256SUMS", "timing.jsonl", "tracking.json")
"""Files in which a tracked run may differ from one that is not."""


class Warned(Progress):
    """Keeps what it is warned of."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def warn(self, text: str) -> None:
        self.texts.append(text)


class Listens:
    """A tool that keeps what it gets in `calls`, and fails where `fails` says so."""

    calls: ClassVar[list[Any]] = []
    fails: ClassVar[Callable[[int], bool]]

    def __init__(self, config: Config, folder: Path) -> None:
        self.calls.append("begin")

    def log(self, step: int, numbers: dict[str, float]) -> None:
        if type(self).fails(step):
            raise ConnectionError("Nobody there.\nAt all.")
        self.calls.append(step)

    def close(self, status: str) -> None:
        self.calls.append(status)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the tool "tensorboard", which here only listens, has got."""
    monkeypatch.setattr(Listens, "calls", [])
    monkeypatch.setattr(Listens, "fails", lambda step: False, raising=False)
    monkeypatch.setitem(TOOLS, "tensorboard", Listens)
    return Listens.calls


def run(folder: Path, *overrides: str, progress: Progress | None = None) -> RunOutcome:
    return execute(load_config("toy", [*OPTIONS, *overrides]), folder, progress)


def interrupt(folder: Path, after: int, monkeypatch: pytest.MonkeyPatch, *overrides: str) -> None:
    """Run until Ctrl-C in the step after step `after`."""
    with monkeypatch.context() as patch:
        patch.setenv("TOY_INTERRUPT", str(after))
        with pytest.raises(KeyboardInterrupt):
            run(folder, *overrides)


def results(folder: Path) -> dict[str, bytes]:
    """What a run found and how, which no tracking may change."""
    contents = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: content for name, content in contents.items() if name not in OWN and "tfevents" not in name}


def test_every_step_is_sent_also_by_a_run_that_resumes(
    tmp_path: Path, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(tmp_path / "run", 2, monkeypatch, TO)
    assert calls == ["begin", 1, 2, "interrupted"]
    resume(tmp_path / "run")
    assert calls[4:] == ["begin", 1, 2, 3, 4, "finished"]
    run(tmp_path / "untracked")
    assert results(tmp_path / "untracked") == results(tmp_path / "run")


def test_a_lost_tool_is_one_warning_and_the_run_continues(
    tmp_path: Path, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Listens, "fails", lambda step: step == 2)
    warned = Warned()
    run(tmp_path / "run", TO, progress=warned)
    (text,) = warned.texts
    assert text.startswith("Listens could not be reached (")
    assert "At all" not in text
    assert calls == ["begin", 1]
    monkeypatch.setattr(Listens, "fails", lambda step: False)
    resume(tmp_path / "run")
    assert calls[2:] == ["begin", 1, 2, 3, 4, "finished"]
    run(tmp_path / "untracked")
    assert results(tmp_path / "untracked") == results(tmp_path / "run")


def test_tensorboard_has_every_step_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    interrupt(tmp_path / "run", 2, monkeypatch, TO)
    outcome = resume(tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {
        "values/first", "clients/answered", "clients/missing", "traffic/sent_bytes", "traffic/received_bytes",
        "time/seconds", "time/client_seconds",
    }  # fmt: skip
    scalars = [(event.step, event.value) for event in events.Scalars("traffic/sent_bytes")]
    assert scalars == [(line["step"], line["sent"]) for line in outcome.records]
    assert b'name = "toy"' in events.Tensors("experiment/text_summary")[0].tensor_proto.string_val[0]


def test_mlflow_has_a_resumed_run_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.tracking import MlflowClient

    monkeypatch.chdir(tmp_path)  # where MLflow puts files
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    to = ["tracking.to=['mlflow']", "tracking.project=trials", "method.rate=0.25"]
    client = MlflowClient(uri)
    interrupt(tmp_path / "run", 2, monkeypatch, *to)
    number = client.get_experiment_by_name("trials").experiment_id
    assert [each.info.status for each in client.search_runs([number])] == ["KILLED"]
    outcome = resume(tmp_path / "run")
    (tracked,) = client.search_runs([number])
    assert (tracked.info.run_name, tracked.info.status) == ("run", "FINISHED")
    for name, key in (("values/first", "first"), ("traffic/sent_bytes", "sent")):
        history = [(each.step, each.value) for each in client.get_metric_history(tracked.info.run_id, name)]
        assert history == [(line["step"], (line["values"] | line)[key]) for line in outcome.records]
    assert tracked.data.params["method.rate"] == "0.25"
    assert tracked.data.params["simulation.failures"] == "[]"
