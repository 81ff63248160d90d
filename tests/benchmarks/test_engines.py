"""The contestants do the same work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn


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
