"""Runs as tracking tools get them, and that tracking changes nothing."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.runner import Progress
from fedkin.experiment.callbacks import TOOLS, numbers
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

    title = "Listener"
    calls: ClassVar[list[Any]] = []
    fails: ClassVar[Callable[[int], bool]]

    def __init__(self, config: Config, name: str, folder: Path, run: str | None) -> None:
        self.run = "seven"
        self.calls.append(("begin", run))

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


def test_every_step_is_sent_once_also_by_a_run_that_resumes(
    tmp_path: Path, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(tmp_path / "run", 2, monkeypatch, TO)
    assert calls == [("begin", None), 1, 2, "interrupted"]
    resume(tmp_path / "run")
    assert calls[4:] == [("begin", "seven"), 3, 4, "finished"]
    resume(tmp_path / "run")
    assert calls[8:] == [("begin", "seven"), "finished"]
    run(tmp_path / "untracked")
    assert results(tmp_path / "untracked") == results(tmp_path / "run")


def test_a_lost_tool_is_one_warning_and_the_run_continues(
    tmp_path: Path, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Listens, "fails", lambda step: step == 2)
    warned = Warned()
    run(tmp_path / "run", TO, progress=warned)
    (text,) = warned.texts
    assert text.startswith("Listener could not be reached after step 1 (")
    assert "Nobody there" in text
    assert "At all" not in text
    assert calls == [("begin", None), 1]
    monkeypatch.setattr(Listens, "fails", lambda step: False)
    resume(tmp_path / "run")
    assert calls[2:] == [("begin", "seven"), 2, 3, 4, "finished"]
    run(tmp_path / "untracked")
    assert results(tmp_path / "untracked") == results(tmp_path / "run")


@pytest.mark.parametrize("noted", [2, 1])
def test_tensorboard_has_every_step_once(noted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the run was killed before it could note that a step had been written."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    interrupt(tmp_path / "run", 2, monkeypatch, TO)
    notes = tmp_path / "run" / "tracking.json"
    sent = json.loads(notes.read_text())
    assert sent["tensorboard"]["step"] == 2
    sent["tensorboard"]["step"] = noted
    notes.write_text(json.dumps(sent))
    # Event files are read by name: a second, then a process's count as text, by which its tenth comes before its ninth.
    time.sleep(1.01 - time.time() % 1)
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
    to = ["tracking.to=['mlflow']", f"tracking.uri='{uri}'", "tracking.project=trials", "method.rate=0.25"]
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


letters = st.text("ab/", max_size=3)
json_values = st.none() | st.booleans() | st.integers(-9, 9) | letters | st.lists(st.integers(), max_size=2)


@given(values=st.dictionaries(letters, json_values, max_size=4))
def test_only_single_numbers_of_a_step_are_sent(values: dict[str, Any]) -> None:
    line = {"step": 3, "answered": [0, 2], "missing": {"1": "lost"}, "values": values, "metrics": {"loss": 0.25}}
    sent = numbers({**line, "sent": 10, "received": 20}, {"step": 3, "seconds": 1.5})
    assert sent == {
        **{f"values/{name}": value for name, value in values.items() if type(value) in (int, float)},
        "metrics/loss": 0.25, "clients/answered": 2.0, "clients/missing": 1.0, "traffic/sent_bytes": 10.0,
        "traffic/received_bytes": 20.0, "time/seconds": 1.5,
    }  # fmt: skip
