"""The benchmark runs, counts the work that is really done, and compares like with like."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from fedkin.core import Client
from fedkin.nn.stack import Autoencoder, StackTraining


def test_quick_run_prints_and_writes_the_same_report(
    benchmark: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # a busy machine makes two threads wait for each other
    path = tmp_path / "report.json"
    benchmark.main(["--quick", "--features", "16", "--clients", "3", "--json", str(path)])
    report = json.loads(path.read_text())
    assert set(report["phases"]) == {"train_clusters", "score", "train_community", "refine", "iteration"}
    assert min(report["phases"]["train_community"]["seconds"]) > 0
    assert all(0 < share < 1 for share in report["phases"]["iteration"]["shares"])
    assert report["phases"]["iteration"]["operations"] == sum(
        phase["operations"] for name, phase in report["phases"].items() if name != "iteration"
    )
    assert min(report["bytes_sent"], report["bytes_received"], report["peak_memory"]) > 0
    assert all(ratio > 0 for ratios in report["ratios"].values() for ratio in ratios)
    printed = capsys.readouterr().out
    assert f"3 clients, {report['clusters']} clusters of 40 samples, 16 features" in printed
    assert all(name in printed for name in [*report["phases"], *report["ratios"]])


def test_operations_are_those_of_the_matrix_products(benchmark: ModuleType) -> None:
    widths, training = [6, 4, 3, 2], {"epochs": 2, "min_steps": 0, "batch_size": 8, "learning_rate": 1e-3}
    weights = sum(inputs * outputs for inputs, outputs in Autoencoder(tuple(widths)).layers)
    layers = [torch.nn.Linear(i, o) for i, o in Autoencoder(tuple(widths)).layers]
    x = torch.rand(10, 6)
    with FlopCounterMode(display=False) as counter:
        torch.nn.Sequential(*layers)(x).square().mean().backward()
    assert benchmark.training_operations(widths, 10, training) == 2 * counter.get_total_flops()

    client = Client(0, torch.rand(12, 6), state={"labels": torch.tensor([0] * 5 + [1] * 7)})
    payload = {"widths": widths, "training": training, "models": [0] * 3, "clusters": [1]}
    train = benchmark.training_operations
    halves = [train(widths, half, training) for half in (3, 2, 4, 3)]
    assert benchmark.operations("train_clusters", client, payload) == sum(halves)
    assert benchmark.operations("train_community", client, payload) == train(widths, 7, training)
    assert benchmark.operations("refine", client, payload) == 2 * weights * 12 * (2 + 3)
    assert benchmark.operations("score", client, payload) == 2 * weights * 12 * (2 + 3)
    assert benchmark.operations("finish", client, payload) == 0


def test_small_data_get_their_least_steps_counted(benchmark: ModuleType) -> None:
    training = {"epochs": 2, "min_steps": 7, "batch_size": 4, "learning_rate": 1e-3}
    once = benchmark.training_operations([6, 4], 8, {**training, "epochs": 1, "min_steps": 0})
    assert benchmark.training_operations([6, 4], 8, training) == 4 * once


def test_plain_loop_does_as_many_steps_as_the_plan(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[torch.optim.Adam] = []
    monkeypatch.setattr(torch.optim.Adam, "step", made.append)
    training = StackTraining(epochs=2, batch_size=4)
    benchmark.plain_loop([torch.rand(10, 8), torch.rand(3, 8)], training, 1, fused=False)
    assert len(made) == training.total_steps(10) + training.total_steps(3)
