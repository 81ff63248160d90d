from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fedkin.cli import main
from tracked import run

pytestmark = pytest.mark.usefixtures("toy")


def tracked_steps(folder: Path) -> list[int]:
    """Steps of which TensorBoard knows."""
    found = EventAccumulator(str(folder))
    found.Reload()
    return [event.step for event in found.Scalars("time/seconds")]


def test_runs_are_tracked_afterwards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [run(tmp_path / name).folder for name in ("one", "two")]
    with pytest.raises(SystemExit) as end:
        main(["track", *map(str, folders), "--to", "tensorboard", "--set", f"tracking.folder={tmp_path}/events"])
    assert not end.value.code
    assert capsys.readouterr().out == "".join(f"Sent of {folder}: 4 steps\n" for folder in folders)
    assert tracked_steps(tmp_path / "events" / "one") == tracked_steps(tmp_path / "events" / "two") == [1, 2, 3, 4]


def test_the_command_run_names_tools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["run", "toy", "--scenario", "toy", "--out", "first", "--track", "tensorboard"])
    assert (end.value.code or 0, capsys.readouterr().err) == (0, "")
    assert tracked_steps(tmp_path / "first" / "tensorboard") == [1, 2, 3, 4]
    with pytest.raises(SystemExit) as end:
        main(["run", "toy", "--scenario", "toy", "--out", "second", "--track", "mlfow"])
    assert end.value.code == 2
    said = "Invalid value for '--track': 'mlfow' is not one of 'tensorboard', 'mlflow', 'wandb'."
    assert capsys.readouterr().err == f"fedkin: {said} See `fedkin run --help`.\n"
    assert not (tmp_path / "second").exists()
