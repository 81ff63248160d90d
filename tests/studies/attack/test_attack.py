"""Attacks on finished runs, from the folder to the page."""

from pathlib import Path

import numpy as np
import pytest

from fedkin.cli import main
from fedkin.core import FedkinError
from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute
from fedkin.studies.attack.attack import attack

OPTIONS = [
    "data.source=digits",
    "scenario.name=rotation",
    "scenario.clients=8",
    "method.module=perceptron",
    "method.rounds=1",
    "method.local_epochs=1",
    "method.pretraining_rounds=3",
    "method.min_size=1",
]
LEVELS = [None, 0.0, 0.05, 0.1, 0.15, 0.2]


def run_of(folder: Path, *more: str) -> Path:
    execute(load_config("embedding", [*OPTIONS, *more]), folder)
    return folder


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the method 'embedding' on digits, attacked."""
    folder = run_of(tmp_path_factory.mktemp("attack") / "run")
    attack(folder)
    return folder


def test_the_page_is_whole_and_loads_nothing(found: Path) -> None:
    page = (found / "attack.html").read_text()
    assert page.count("data:image/png;base64,") == 1 + len(LEVELS)
    assert "0.7039" in page
    assert "P = 10 %" in page
    for outside in ("http://", "https://", "<link", 'src="/'):
        assert outside not in page


def test_the_same_run_gives_the_same_bytes_wherever_they_go(found: Path, tmp_path: Path) -> None:
    text = attack(found, tmp_path / "elsewhere")
    assert str(tmp_path / "elsewhere" / "attack.html") in text
    for name in ("attack.json", "attack.html"):
        assert (tmp_path / "elsewhere" / name).read_bytes() == (found / name).read_bytes()


def test_the_command_prints_both_tables(found: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["attack", str(found), "--out", str(tmp_path)])
    assert not end.value.code
    shown = capsys.readouterr().out
    assert "Reconstruction" in shown
    assert "Membership (advantage)" in shown
    assert all(len(line) <= 110 for line in shown.splitlines() if not line.startswith("Report"))


def run_of_tables(folder: Path, *more: str) -> Path:
    """A run with four files of numbers far beyond [0, 1]."""
    (folder / "clients").mkdir()
    rng = np.random.default_rng(0)
    for name in "abcd":
        y = np.arange(60) % 3
        np.savez(folder / "clients" / f"{name}.npz", x=(rng.random((60, 6)) + y[:, None] * 5).astype(np.float32), y=y)
    kept = [option for option in OPTIONS if not option.startswith(("data.", "scenario."))]
    options = [*kept, "scenario.name=files", f"data.source={folder / 'clients'}", *more]
    execute(load_config("embedding", options), folder / "run")
    return folder / "run"


def test_without_held_out_samples_there_is_nobody_to_tell_members_from(tmp_path: Path) -> None:
    with pytest.raises(
        FedkinError, match=r"^The scenario 'files' of .* holds out no samples .*'scenario\.test_fraction' sets"
    ):
        attack(run_of_tables(tmp_path))


def test_a_run_of_another_method_is_refused(tmp_path: Path) -> None:
    execute(load_config("fedavg", OPTIONS[:6]), tmp_path / "run")
    with pytest.raises(
        FedkinError, match=r"run is a run of 'fedavg', whose clients send no bits to attack; give one of"
    ):
        attack(tmp_path / "run")
    assert not (tmp_path / "run" / "attack.json").exists()
