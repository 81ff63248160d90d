import json
import math
from pathlib import Path

import pytest

from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute, resume
from fedkin.studies.costs import costs_of
from shell import fedkin

STEPS = [
    ("pre-training", 100, 100, 0.5, 1.0, None),
    ("pre-training", 100, 100, 0.5, 1.0, None),
    ("embedding", 0, 10, 0.25, 0.5, 0.2),
    ("training", 1000, 900, 4.0, 2.0, 0.8),
    ("training", 1000, 900, 4.0, 2.0, 0.95),
    ("training", 1000, 900, 4.0, 2.0, 0.99),
]
"""Phase, bytes sent and received, seconds of clients and of the clock, accuracy."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder with these steps, and seconds before the first."""
    (tmp_path / "config.toml").touch()
    records, timing, sent, received = [], [{"step": 0, "client_seconds": 0.125, "seconds": 0.25}], 0, 0
    for step, (phase, out, back, clients, clock, accuracy) in enumerate(STEPS, 1):
        sent, received = sent + out, received + back
        line = {"step": step, "values": {"phase": phase}, "metrics": {"accuracy": accuracy}}
        records.append({**line, "sent": sent, "received": received})
        timing.append({"step": step, "client_seconds": clients, "seconds": clock})
    for name, lines in (("records.jsonl", records), ("timing.jsonl", timing)):
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def test_phases_are_told_apart_and_what_came_before_counts_to_the_first(run: Path) -> None:
    costs = costs_of(run)
    assert costs is not None
    assert {phase: tuple(row) for phase, row in costs.iterrows()} == {
        "pre-training": (2, 200, 200, 1.125, 2.25),
        "embedding": (1, 0, 10, 0.25, 0.5),
        "training": (3, 3000, 2700, 12.0, 6.0),
        "total": (6, 3200, 2910, 13.375, 8.75),
    }
    reached = costs_of(run, ("accuracy", 0.9))
    assert reached is not None
    assert tuple(reached.loc["total"])[:3] == (5, 2200, 2010)
    assert costs_of(run, ("accuracy", 0.999)) is None
    (run / "timing.jsonl").write_text("")
    costs = costs_of(run)
    assert costs is not None
    assert math.isnan(costs.loc["total", "seconds"])


@pytest.mark.usefixtures("toy")
def test_a_resumed_run_goes_on_with_its_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config("toy", ["simulation.scenario=toy"])
    with monkeypatch.context() as patch:
        patch.setenv("TOY_INTERRUPT", "2")
        with pytest.raises(KeyboardInterrupt):
            execute(config, tmp_path / "run")
    first = (tmp_path / "run" / "timing.jsonl").read_text()
    resume(tmp_path / "run")
    text = (tmp_path / "run" / "timing.jsonl").read_text()
    assert text.startswith(first)
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["step"] for line in lines] == [0, 1, 2, 3, 4]
    costs = costs_of(tmp_path / "run")
    assert costs is not None
    last = json.loads((tmp_path / "run" / "records.jsonl").read_text().splitlines()[-1])
    assert tuple(costs.loc["total"])[:3] == (4, last["sent"], last["received"])
    assert costs.loc["total", "client_seconds"] == pytest.approx(sum(line["client_seconds"] for line in lines))


def test_the_command_prints_a_table_or_json(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fedkin("costs", str(run)) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["steps", "sent", "received", "client_seconds", "seconds"]
    assert fedkin("costs", str(run), "--json") == 0
    assert json.loads(capsys.readouterr().out)[str(run)]["training"]["steps"] == 3
    assert fedkin("costs") == 2
