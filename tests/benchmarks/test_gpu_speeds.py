"""Speeds of a device count the work that is done, and compare the same work."""

from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

CPU = torch.device("cpu")


def test_a_share_is_that_of_the_products_of_the_same_process(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert benchmark.products(CPU, True) > 0
    monkeypatch.setattr(benchmark, "products", lambda device, tiny: 8.0)
    found = benchmark.with_share({"seconds": 2.0}, 4e12, CPU, True)
    assert found == {
        "seconds": 2.0, "TFLOP/s": 2.0, "TFLOP/s, matrix products": 8.0, "share of matrix products": 0.25,
    }  # fmt: skip


def test_operations_of_fedcref_are_those_of_a_plain_loop_over_all_its_models(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters = []

    def compared(work: Any, device: torch.device, on_processor: Any, plain: Any, in_loop: Any) -> dict[str, float]:
        with FlopCounterMode(display=False) as counter:
            plain(in_loop.of)
        counters.append(counter)
        return {"seconds": 1.0}

    monkeypatch.setattr(benchmark, "compared", compared)
    found = benchmark.fedcref(CPU, True)
    assert found["TFLOP/s"] == pytest.approx(counters[0].get_total_flops() / 1e12)
