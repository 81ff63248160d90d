"""Speeds of a GPU, on the processor."""

import json
import platform
from pathlib import Path
from types import ModuleType

import pytest
import torch


def test_a_part_leaves_a_line_and_is_not_run_again(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "PARTS", {"rate": benchmark.PARTS["rate"]})
    file = tmp_path / "results.jsonl"
    arguments = ["--device", "cpu", "--tiny", "--results", str(file)]
    for _ in range(2):
        benchmark.main(arguments)
    (line,) = (json.loads(line) for line in file.read_text().splitlines())
    assert (line["part"], line["tiny"], line["seeds"]) == ("rate", True, [0])
    assert (line["torch"], line["python"]) == (torch.__version__, platform.python_version())
    assert line["device"].startswith("cpu: ")
    assert set(line["values"]) == {"TFLOP/s, float32", "TFLOP/s, TF32"}
    assert min(line["values"].values()) > 0


@pytest.mark.slow
def test_all_parts_work_at_a_size_of_seconds(benchmark: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    benchmark.main(["--device", "cpu", "--tiny", "--results", str(file)])
    assert [json.loads(line)["part"] for line in file.read_text().splitlines()] == list(benchmark.PARTS)
