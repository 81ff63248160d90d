"""The contestants do the same work, their memory is counted whole, and nothing they start outlives them."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from time import sleep
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")


@pytest.fixture
def small(benchmark: ModuleType, tmp_path: Path) -> Callable[..., Any]:
    """Makes toy workloads and writes the data of each to a file of its own."""
    number = count()

    def make(regime: str = "overhead", **sizes: int) -> Any:
        chosen = {"clients": 3, "rounds": 3, "samples": 40, **sizes}
        work = benchmark.Workload(regime, str(tmp_path / f"images-{next(number)}"), **chosen)
        benchmark.write_data(work)
        return work

    return make


def test_models_have_the_sizes_that_are_compared(benchmark: ModuleType) -> None:
    sizes = {name: sum(p.numel() for p in regime.model().parameters()) for name, regime in benchmark.REGIMES.items()}
    assert sizes == {"overhead": 159_010, "compute": 85_822}


def test_models_are_those_of_the_library(benchmark: ModuleType) -> None:
    models = pytest.importorskip("fedkin.nn")
    for regime in benchmark.REGIMES.values():
        ours, theirs = models.build(regime.name, (1, 28, 28), 10), regime.model()
        assert [type(layer) for layer in ours] == [type(layer) for layer in theirs]
        assert [p.shape for p in ours.parameters()] == [p.shape for p in theirs.parameters()]


def test_data_depend_on_the_seed_alone_and_differ_between_clients(small: Callable[..., Any]) -> None:
    work = small()
    x, y = work.client_data(1)
    assert (x.shape, x.dtype, y.shape, y.dtype) == ((40, 1, 28, 28), torch.float32, (40,), torch.int64)
    assert 0 <= x.min() < x.max() <= 1
    assert torch.equal(x, small().client_data(1)[0])
    assert not torch.equal(x, work.client_data(0)[0])
    assert not torch.equal(x, small(seed=1).client_data(1)[0])


@pytest.mark.parametrize(
    ("regime", "samples", "steps"), [("overhead", 40, 5), ("compute", 40, 10), ("compute", 600, 95)]
)
def test_steps_of_a_round(benchmark: ModuleType, regime: str, samples: int, steps: int) -> None:
    assert benchmark.Workload(regime, "", samples=samples).local_steps == steps


@pytest.mark.parametrize("regime", ["overhead", "compute"])
def test_plain_loop_does_the_steps_of_every_client(
    benchmark: ModuleType, small: Callable[..., Any], regime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []
    step = torch.optim.SGD.step
    monkeypatch.setattr(torch.optim.SGD, "step", lambda self: (done.append(1), step(self)))
    work = small(regime, rounds=2)
    report = benchmark.plain_loop(work)
    assert len(done) == 2 * 3 * work.local_steps
    assert len(report["seconds"]) == 2


def test_plain_loop_averages_the_clients_models(
    benchmark: ModuleType, small: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step on one batch of all samples: the mean of the models is one step along the mean gradient."""
    work = small(rounds=1, samples=32)
    model, steps = work.first_model(), torch.zeros(159_010)
    for client in range(work.clients):
        x, y = work.client_data(client)
        gradients = torch.autograd.grad(nn.functional.cross_entropy(model(x), y), list(model.parameters()))
        steps -= work.learning_rate / work.clients * nn.utils.parameters_to_vector(gradients)
    with torch.no_grad():
        nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(model.parameters()) + steps, model.parameters())
    monkeypatch.setitem(benchmark.REGIMES, "overhead", replace(benchmark.REGIMES["overhead"], steps=1))
    assert benchmark.plain_loop(work)["loss"] == pytest.approx(work.loss(model), rel=1e-6)


@pytest.mark.parametrize("regime", ["overhead", "compute"])
@pytest.mark.parametrize(("samples", "tolerance"), [(32, 1e-3), (40, 0.1)])  # one batch, or two in another order
def test_local_engine_learns_what_the_plain_loop_learns(
    benchmark: ModuleType, small: Callable[..., Any], regime: str, samples: int, tolerance: float
) -> None:
    work = small(regime, samples=samples, rounds=4)
    before = work.loss(work.first_model())
    plain, ours = benchmark.plain_loop(work), benchmark.local_engine(work)
    assert len(ours["seconds"]) == work.rounds
    assert min(ours["seconds"]) > 0
    assert plain["loss"] < before
    assert before - ours["loss"] == pytest.approx(before - plain["loss"], rel=tolerance)


def test_flowers_client_learns_what_the_plain_loop_learns(benchmark: ModuleType, small: Callable[..., Any]) -> None:
    pytest.importorskip("flwr")
    from torch.utils.data import DataLoader, TensorDataset

    from flower_fedavg import app

    work = small(rounds=1, clients=1, samples=32)
    model = work.first_model()
    app.fit(model, DataLoader(TensorDataset(*work.client_data(0)), batch_size=32, shuffle=True), work)
    assert work.loss(model) == pytest.approx(benchmark.plain_loop(work)["loss"], rel=1e-5)


def test_speed_is_that_of_the_later_rounds(benchmark: ModuleType) -> None:
    work = benchmark.Workload("overhead", "", clients=10, rounds=3)
    runs = [{"seconds": [9.0, s, s], "loss": 1.0, "peak_memory": 100.0} for s in (0.5, 1.0, 2.0)]
    slow = benchmark.summary(work, runs)
    assert (slow["clients_per_second"], slow["first_round"], slow["later_round"]) == (10.0, 9.0, 1.0)
    fast = {**slow, "clients_per_second": 40.0, "peak_memory": 25.0}
    assert benchmark.ratios({"fedkin": fast, "flower": slow}) == {"flower": {"speed": 4.0, "memory": 0.25}}
    assert benchmark.ratios({"flower": slow}) == {}


@linux
def test_comparison_prints_a_table_and_one_line_of_json(
    benchmark: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--clients", "2", "--rounds", "2", "--samples", "33", "--contestants", "plain-1", "flower"]
    benchmark.main(arguments)
    output, error = capsys.readouterr()
    assert error == "Flower is left out: --flower-python was not given.\n"
    *table, line = output.splitlines()
    assert len(table) == 3
    assert len({row.count("|") for row in table}) == 1
    result = json.loads(line)["results"]
    assert list(result) == ["plain-1"]
    assert result["plain-1"]["peak_memory"] > 50 * 2**20
    assert math.isfinite(result["plain-1"]["clients_per_second"])
    assert result["plain-1"]["runs"][0]["left_behind"] == 0


@linux
def test_contestant_that_fails_is_quoted(benchmark: ModuleType, small: Callable[..., Any], tmp_path: Path) -> None:
    wrong = benchmark.Workload(**{**asdict(small()), "data": str(tmp_path / "absent")})
    with pytest.raises(SystemExit, match=r"(?s)plain loop, 1 thread failed with exit status 1.*absent"):
        benchmark.in_processes("plain-1", wrong, tmp_path, None, timeout=300)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--rounds", "1"], "--rounds and --clients must be at least 2"),
        (["--flower-python", "absent"], "--flower-python absent is not a file"),
    ],
)
def test_wrong_arguments_are_refused(
    benchmark: ModuleType, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    with pytest.raises(SystemExit):
        benchmark.main(arguments)
    assert sentence in capsys.readouterr().err


CHILD = "import time; held = bytearray(b'x') * {bytes}; print('ready', flush=True); time.sleep(60)"
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"


@linux
def test_tree_counts_children_and_kills_orphans(benchmark: ModuleType) -> None:
    child = CHILD.format(bytes=64 * 2**20)
    parent = [sys.executable, "-c", PARENT.format(child=child)]
    with subprocess.Popen(parent, stdout=subprocess.PIPE, text=True) as process:
        tree = benchmark.ProcessTree(process.pid)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        held = tree.measure()
        assert 64 * 2**20 < held < 128 * 2**20
        assert tree.peak == held
        orphan = next(pid for pid in tree.members() if pid != process.pid)
        process.kill()
        process.wait()
        assert tree.members() == [orphan]
        assert tree.kill(patience=0.0) == 1
        for _ in range(100):
            if not tree.members():
                break
            sleep(0.02)
        assert tree.members() == []
    assert os.getpid() not in tree.members()
    assert tree.measure() == 0
    assert tree.peak == held
