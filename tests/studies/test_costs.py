import json
from pathlib import Path

import pytest

from fedkin.cli import main
from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute, resume
from fedkin.studies.costs import as_text, costs_of

STEPS = [
    ("pre-training", 100, 100, 0.5, 1.0, None),
    ("pre-training", 100, 100, 0.5, 1.0, None),
    ("embedding", 0, 10, 0.25, 0.5, 0.2),
    ("training", 1000, 900, 4.0, 2.0, 0.8),
    ("training", 1000, 900, 4.0, 2.0, 0.95),
    ("training", 1000, 900, 4.0, 2.0, 0.99),
]
"""Phase, bytes sent and received, seconds of clients and of the clock, accuracy."""


def saved(folder: Path, steps=STEPS, before=(0.125, 0.25), phases=True) -> Path:
    """A run's folder with these steps; `before` are the seconds before the first."""
    folder.mkdir()
    (folder / "config.toml").touch()
    records, timing, sent, received = [], [{"step": 0, "client_seconds": before[0], "seconds": before[1]}], 0, 0
    for step, (phase, out, back, clients, clock, accuracy) in enumerate(steps, 1):
        sent, received = sent + out, received + back
        values = {"phase": phase} if phases else {}
        metrics = {"accuracy": accuracy}
        records.append({"step": step, "values": values, "metrics": metrics, "sent": sent, "received": received})
        timing.append({"step": step, "client_seconds": clients, "seconds": clock})
    for name, lines in (("records.jsonl", records), ("timing.jsonl", timing)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def cost(*values: float) -> dict:
    return dict(zip(("steps", "sent", "received", "both", "client_seconds", "seconds"), values, strict=True))


def test_phases_are_told_apart_and_what_came_before_counts_to_the_first(tmp_path: Path) -> None:
    [run] = costs_of([saved(tmp_path / "run")])["runs"]
    assert run["phases"] == {
        "pre-training": cost(2, 200, 200, 400, 1.125, 2.25),
        "embedding": cost(1, 0, 10, 10, 0.25, 0.5),
        "training": cost(3, 3000, 2700, 5700, 12.0, 6.0),
        "total": cost(6, 3200, 2910, 6110, 13.375, 8.75),
    }
    assert (run["training_rounds"], run["step"]) == (3, 6)


def test_a_run_is_relative_to_the_first_and_counts_to_its_target(tmp_path: Path) -> None:
    folders = [saved(tmp_path / "first"), saved(tmp_path / "second", STEPS[:3])]
    tree = costs_of(folders)
    assert tree["runs"][1]["ratio_to_first"] == pytest.approx(
        {"sent": 200 / 3200, "received": 210 / 2910, "both": 410 / 6110, "client_seconds": 1.375 / 13.375,
         "seconds": 2.75 / 8.75}
    )  # fmt: skip
    reached, never = costs_of(folders, ("accuracy", 0.9))["runs"]
    assert (reached["step"], reached["training_rounds"], reached["phases"]["training"]["steps"]) == (5, 2, 2)
    assert (never["step"], never["phases"], never["ratio_to_first"]) == (None, {}, None)
    assert "accuracy 0.9 not reached" in as_text(costs_of(folders, ("accuracy", 0.9)))


@pytest.mark.usefixtures("toy")
def test_a_run_writes_its_seconds_with_what_came_before_as_step_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert all(0 < line["client_seconds"] < 1 for line in lines)
    assert all(set(line) == {"step", "seconds", "client_seconds"} for line in lines)
    total = costs_of([tmp_path / "run"])["runs"][0]["phases"]["total"]
    last = json.loads((tmp_path / "run" / "records.jsonl").read_text().splitlines()[-1])
    assert (total["sent"], total["received"], total["steps"]) == (last["sent"], last["received"], 4)
    assert total["client_seconds"] == pytest.approx(sum(line["client_seconds"] for line in lines))


def test_the_command_prints_a_table_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(saved(tmp_path / "run"))
    for arguments, code in (([run], 0), ([run, "--json"], 0), ([run, "--target", "acc"], 2), ([], 2)):
        with pytest.raises(SystemExit) as end:
            main(["costs", *arguments])
        assert int(end.value.code or 0) == code
        shown = capsys.readouterr()
        if code == 0 and "--json" in arguments:
            assert json.loads(shown.out)["runs"][0]["training_rounds"] == 3
        elif code == 0:
            assert shown.out.splitlines()[0].split()[:3] == ["run", "phase", "steps"]
        elif arguments:
            assert shown.err == "fedkin: --target 'acc' is not NAME=NUMBER, such as personal_accuracy=0.95.\n"
