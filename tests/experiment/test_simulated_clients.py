"""Flower's simulation, with Ray's own processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import forked
from fedkin.core import FedkinError
from fedkin.core.payload import load_tree
from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute

SMALL = ["simulation.scenario=label-skew", "simulation.clients=4", "method.rounds=1", "method.local_epochs=1"]
FEW = [*SMALL, "method.max_iterations=2", "method.min_steps=10", "device.workers=2", "evaluation.map=pca"]
FEWER = [*SMALL[:2], "method.n_clusters=4", "device.workers=2", "evaluation.map=pca"]


def files(folder: Path) -> dict[str, bytes]:
    """What must be the same on both engines, byte by byte."""
    names = ["records.jsonl", "result.json", "models.safetensors", *(f"labels/client-{i}.csv" for i in range(4))]
    return {name: (folder / name).read_bytes() for name in names}


def run(folder: Path, engine: str, *more: str, method: str = "fedcref") -> Path:
    settings = FEWER if method == "kfed" else FEW
    return execute(load_config(method, [*settings, *more, f"simulation.engine={engine}"]), folder).folder


def ended(folder: Path, words: Sequence[str | Path]) -> tuple[int, str]:
    """How the command ends, and its errors: in a process of its own, for Ray leaves threads and processes behind."""
    code, _, errors = forked.Program(folder, folder / "log", forked.fedkin, [str(word) for word in words]).ended(600)
    return code, errors


def started(*words: str | Path) -> subprocess.Popen[bytes]:
    """The command, as a user starts it."""
    command = [sys.executable, "-m", "fedkin", *map(str, words)]
    return subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)


def simulated(folder: Path, method: str = "fedcref") -> list[str | Path]:
    settings = FEWER if method == "kfed" else FEW
    return ["run", method, "--engine", "flower", "--out", folder, *(w for o in settings for w in ("--set", o))]


@pytest.mark.long
@pytest.mark.parametrize("method", ["kfed", pytest.param("fedcref", marks=pytest.mark.slow)])
def test_a_simulation_finds_what_the_local_engine_finds(method: str, tmp_path: Path) -> None:
    local, flower = run(tmp_path / "local", "local", method=method), tmp_path / "flower"
    code, errors = ended(tmp_path, simulated(flower, method))
    assert code == 0, errors
    assert files(local) == files(flower)
    assert load_tree(flower / "checkpoint.safetensors")["clients"] == {}
    assert len(list(flower.glob("clients/*/0/memory-*.safetensors"))) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_stopped_and_resumed_it_leaves_what_an_uninterrupted_one_leaves(tmp_path: Path, how: signal.Signals) -> None:
    straight, folder = run(tmp_path / "straight", "local"), tmp_path / "stopped"
    child = started(*simulated(folder))
    while not (folder / "records.jsonl").exists():
        assert child.poll() is None
        time.sleep(0.01)
    (os.killpg if how == signal.SIGKILL else os.kill)(child.pid, how)
    _, said = child.communicate(timeout=600)
    assert how == signal.SIGKILL or (child.returncode == 130 and b"resume with `fedkin resume" in said)
    code, errors = ended(tmp_path, ["resume", folder])
    assert code == 0, errors
    assert files(folder) == files(straight)


def test_what_only_the_local_engine_does_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FedkinError, match=r"'chunk' is for the local engine"):
        run(tmp_path / "run", "flower", "device.chunk=3")
    assert not (tmp_path / "run").exists()
