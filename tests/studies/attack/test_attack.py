"""Attacks on finished runs, from the folder to the page."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from fedkin.cli import main
from fedkin.core import FedkinError
from fedkin.data.preparation import Preparation
from fedkin.data.scaling import Scaling
from fedkin.experiment.config import load_config
from fedkin.experiment.outputs import load_found
from fedkin.experiment.run import execute
from fedkin.privacy.accounting import MEANINGFUL_EPSILON
from fedkin.studies.attack.attack import _material, _visible, attack
from fedkin.studies.attack.attack_page import as_text

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


def tree_of(folder: Path) -> dict:
    return json.loads((folder / "attack.json").read_text())


def test_every_level_is_tried(found: Path) -> None:
    tree = tree_of(found)
    assert [level["flip"] for level in tree["reconstruction"]["levels"]] == LEVELS
    assert [level["flip"] for level in tree["membership"]["levels"]] == LEVELS[1:]
    assert {"1", "sent"} <= set(tree["membership"]["held"])


def test_the_statement_is_the_runs(found: Path) -> None:
    (made,) = tree_of(found)["statements"]
    assert (made["flip"], made["bits"], made["width"]) == (0.1, 200, 20)
    assert made["epsilon_bit"] == pytest.approx(np.log(9))
    assert made["epsilon_sample"] == pytest.approx(20 * np.log(9))


def test_an_epsilon_that_guarantees_nothing_is_called_so_on_page_and_terminal(found: Path) -> None:
    levels = tree_of(found)["membership"]["levels"]
    page, printed = (found / "attack.html").read_text(), as_text(tree_of(found))
    meaningless = [level["epsilon"] for level in levels if level["epsilon"] and level["epsilon"] > MEANINGFUL_EPSILON]
    assert meaningless
    for epsilon in meaningless:
        assert f"{epsilon:,.2f} (no meaningful guarantee)" in printed
        assert f"{epsilon:,.2f}" in page
    assert printed.count("(no meaningful guarantee)") == len(meaningless)
    assert page.count("no meaningful guarantee") >= len(meaningless)


def test_noise_makes_it_worse_for_the_attacker(found: Path) -> None:
    tree = tree_of(found)
    errors = [level["error"] for level in tree["reconstruction"]["levels"]]
    assert errors[0] < errors[1] < errors[-1]
    advantages = [level["held"]["1"]["advantage"] for level in tree["membership"]["levels"]]
    assert advantages[0] > advantages[-1] + 0.05


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


def test_the_command_for_programs_and_a_quiet_one(
    found: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for more, printed in (["--json"], (found / "attack.json").read_text()), (["--quiet"], ""):
        with pytest.raises(SystemExit) as end:
            main(["attack", str(found), "--out", str(tmp_path), *more])
        assert end.value.code == 0
        assert capsys.readouterr() == (printed, "")


def test_flips_of_the_clients_own_choice_are_each_stated(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", "method.flips=[0.0, 0.25]", "method.form=prototypes", "method.prototypes=4")
    attack(folder)
    tree = tree_of(folder)
    assert [made["flip"] for made in tree["statements"]] == [0.0, 0.25]
    assert tree["statements"][0]["epsilon_client"] is None
    assert tree["statements"][1]["epsilon_sample"] == tree["statements"][1]["epsilon_client"]  # one moves all centres
    assert tree["membership"]["levels"][-1]["flip"] == 0.25


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


def test_data_that_are_no_pictures_give_a_page_without_any(tmp_path: Path) -> None:
    folder = run_of_tables(tmp_path, "scenario.test_fraction=0.5")
    attack(folder)
    page = (folder / "attack.html").read_text()
    assert 'id="reconstruction"' in page
    assert 'id="pictures"' not in page
    assert "data:image/png" not in page


def test_without_held_out_samples_there_is_nobody_to_tell_members_from(tmp_path: Path) -> None:
    with pytest.raises(
        FedkinError, match=r"^The scenario 'files' of .* holds out no samples .*'scenario\.test_fraction' sets"
    ):
        attack(run_of_tables(tmp_path))


def test_scaled_pictures_are_shown_as_they_came(tmp_path: Path) -> None:
    """Standardised ones too have black where they were black."""
    folder = run_of(tmp_path / "run")
    material = _material(folder)
    plain = material.population.tests[0][0][:3]
    scaling = Scaling(
        "standard", (1, 8, 8), torch.tensor([0.3], dtype=torch.float64), torch.tensor([0.2], dtype=torch.float64)
    )
    scaled = dataclasses.replace(material, found=dataclasses.replace(material.found, preparation=Preparation(scaling)))
    ((_, _, shown),) = _visible(scaled, [("originals", 0.0, scaling.apply(plain))])
    np.testing.assert_allclose(shown, plain[:, 0].numpy(), atol=1e-6)


def test_a_run_of_another_method_is_refused(tmp_path: Path) -> None:
    execute(load_config("fedavg", OPTIONS[:6]), tmp_path / "run")
    with pytest.raises(
        FedkinError, match=r"run is a run of 'fedavg', whose clients send no bits to attack; give one of"
    ):
        attack(tmp_path / "run")
    assert not (tmp_path / "run" / "attack.json").exists()


def test_a_run_of_sums_has_no_bits_to_attack(found: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = load_found(found)
    sums = dataclasses.replace(run, result={name: value for name, value in run.result.items() if name != "flip"})
    monkeypatch.setattr("fedkin.studies.attack.attack.load_found", lambda folder: sums)
    with pytest.raises(FedkinError, match="whose clients send no bits to attack"):
        attack(found)


def test_a_run_that_is_not_finished_is_refused(found: Path, tmp_path: Path) -> None:
    shutil.copy(found / "config.toml", tmp_path)
    with pytest.raises(FedkinError, match="holds no result"):
        attack(tmp_path)
