"""Attacks on finished runs, from the folder to the page; flips protect as in the paper."""

from functools import cache
from pathlib import Path

import pytest
from torch import Tensor

from fedkin.cli import main
from fedkin.core import FedkinError
from fedkin.core.seeds import derive_generator
from fedkin.data.sources import load
from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute
from fedkin.nn.descent import LocalTraining, train_locally
from fedkin.nn.encoder import Encoder
from fedkin.studies.attack import attack, reconstruct


@cache
def digits() -> tuple[Tensor, Tensor]:
    """Pictures in [0, 1] and their classes."""
    data = load("digits")
    assert data.y is not None
    return data.x, data.y


@cache
def learnt() -> tuple[Encoder, Tensor]:
    """A small encoder, and its model, trained for a moment."""
    x, _ = digits()
    encoder = Encoder.of({"name": "dense-autoencoder", "shape": list(x.shape[1:]), "output": "sigmoid"})
    how = LocalTraining(epochs=10, batch_size=32, optimizer="adam", learning_rate=3e-3)
    vector, _ = train_locally(encoder, encoder.initial(derive_generator(0)), x, x, derive_generator(1), how)
    return encoder, vector


OPTIONS = [
    "data.source=digits",
    "simulation.scenario=rotation",
    "simulation.clients=8",
    "method.module=perceptron",
    "method.rounds=1",
    "method.local_epochs=1",
    "method.pretraining_rounds=3",
    "method.min_size=1",
]


def run_of(folder: Path, *more: str) -> Path:
    execute(load_config("embedding", [*OPTIONS, *more]), folder)
    return folder


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the method 'embedding' on digits, attacked."""
    folder = run_of(tmp_path_factory.mktemp("attack") / "run")
    attack(folder)
    return folder


def test_the_command_prints_a_table_and_writes_the_same_bytes(
    found: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["attack", str(found), "--out", str(tmp_path)])
    assert not end.value.code
    assert (tmp_path / "attack.json").read_bytes() == (found / "attack.json").read_bytes()
    shown = capsys.readouterr().out
    assert "Reconstruction of " in shown
    assert "P = 10 %" in shown


def test_a_run_of_another_method_is_refused(tmp_path: Path) -> None:
    execute(load_config("fedavg", OPTIONS[:6]), tmp_path / "run")
    with pytest.raises(FedkinError):
        attack(tmp_path / "run")
    assert not (tmp_path / "run" / "attack.json").exists()


def test_errors_grow_with_the_noise_as_in_table_2_and_recognition_falls_to_chance():
    x, levels = digits()[0][:300], (None, 0.0, 0.05, 0.1, 0.15, 0.2, 0.5)
    results = [reconstruct(*learnt(), x, level, derive_generator(2, str(level))) for level in levels]
    errors, recognised = [error for error, _ in results], [share for _, share in results]
    assert errors == sorted(errors)
    assert errors[1] > 2 * errors[0]
    encoder, vector = learnt()
    exact = encoder.module(vector)(x) - x
    assert errors[0] == pytest.approx(float(exact.square().mean().detach()), rel=1e-4)
    assert recognised[0] > 0.6
    assert recognised[0] > recognised[2] > recognised[-1]
    assert recognised[-1] < 0.03
