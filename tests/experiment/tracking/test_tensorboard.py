"""Runs as TensorBoard reads them back."""

import json
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fedkin.experiment.run import resume
from tracked import interrupt, results, run

pytestmark = pytest.mark.usefixtures("toy")

TO = "tracking.to=['tensorboard']"


def read(folder: Path) -> EventAccumulator:
    found = EventAccumulator(str(folder))
    found.Reload()
    return found


def scalars(found: EventAccumulator, name: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in found.Scalars(name)]


def test_scalars_hyper_parameters_and_text_are_read_back(tmp_path: Path) -> None:
    outcome = run(tmp_path / "run", TO)
    found = read(tmp_path / "run" / "tensorboard")
    assert set(found.Tags()["scalars"]) == {
        "values/first", "clients/answered", "clients/missing", "traffic/sent_bytes", "traffic/received_bytes",
        "time/seconds", "time/client_seconds",
    }  # fmt: skip
    assert scalars(found, "traffic/sent_bytes") == [(line["step"], line["sent"]) for line in outcome.records]
    first = [(line["step"], pytest.approx(line["values"]["first"])) for line in outcome.records]
    assert scalars(found, "values/first") == first
    assert b"| method | toy |" in found.Tensors("run/text_summary")[0].tensor_proto.string_val[0]


@pytest.mark.parametrize("noted", [2, 1])
def test_a_resumed_run_has_every_step_once(noted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if it was killed before it could note that a step had been written."""
    interrupt(tmp_path / "run", 2, monkeypatch, TO)
    notes = tmp_path / "run" / "tracking.json"
    known = json.loads(notes.read_text())
    assert known["tensorboard"]["step"] == 2
    known["tensorboard"]["step"] = noted
    notes.write_text(json.dumps(known))
    # Event files are read by name: a second, then a process's count as text, by which its tenth comes before its ninth.
    time.sleep(1.01 - time.time() % 1)
    outcome = resume(tmp_path / "run")
    found = read(tmp_path / "run" / "tensorboard")
    assert scalars(found, "traffic/sent_bytes") == [(line["step"], line["sent"]) for line in outcome.records]
    run(tmp_path / "untracked")
    assert results(tmp_path / "untracked") == results(tmp_path / "run")
