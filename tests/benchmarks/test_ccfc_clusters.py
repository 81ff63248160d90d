"""Rounds by clusters of fedkin from a given model, on few images."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
import torch

from fedkin.core.payload import save_tree


def test_every_round_from_the_model_on_has_a_line(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = torch.Generator().manual_seed(0)
    truth = torch.arange(200) % 10
    x = (torch.rand(10, 1, 28, 28, generator=rng)[truth] + torch.rand(200, 1, 28, 28, generator=rng)) / 2
    monkeypatch.setattr(benchmark, "images", lambda fraction: (x, truth))
    save_tree(tmp_path / "checkpoint.safetensors", {"state": {"models": {"all": benchmark.NETWORK.initial(rng)}}})
    lines = tmp_path / "lines.jsonl"
    benchmark.main([str(lines), str(tmp_path), "--rounds", "1", "--seeds", "3", "--batch", "16"])
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [(line["whose"], line["seed"], line["round"]) for line in found] == [("fedkin", 3, 0), ("fedkin", 3, 1)]
    assert all(0 <= line["nmi"] <= 1 for line in found)
