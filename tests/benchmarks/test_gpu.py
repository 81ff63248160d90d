"""The list of what needs a GPU, on the processor."""

import json
import platform
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch


@pytest.fixture
def quick(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The list with parts that end at once: one that works, one that fails, one that takes too long."""
    programs = {
        "works": "print('words'); print('{\"speed\": 2.0}')",
        "fails": "raise SystemExit('no memory')",
        "lasts": "import time; time.sleep(60)",
    }
    parts = [
        benchmark.Part(name, name, lambda device, tiny, code=code: [sys.executable, "-c", code])
        for name, code in programs.items()
    ]
    monkeypatch.setattr(benchmark, "PARTS", tuple(parts))
    monkeypatch.setattr(benchmark, "LONGEST", 1.0)
    return benchmark


@pytest.mark.long
def test_each_part_has_a_line_and_is_not_run_again_if_it_was_done(
    quick: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.jsonl"
    arguments = ["run", "--device", "cpu", "--results", str(file)]
    quick.main(arguments)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["part"], line["failed"], line["values"]) for line in lines] == [
        ("works", "", {"speed": 2.0}),
        ("fails", "ended with 1", {}),
        ("lasts", "not finished after 1 s", {}),
    ]
    assert "no memory" in lines[1]["output"]
    assert all(
        line["commit"] and line["seeds"] == [0] and line["torch"] and line["device"].startswith("cpu") for line in lines
    )
    quick.main([*arguments, "--minutes", "0"])
    assert len(file.read_text().splitlines()) == 3
    quick.main([*arguments[:1], "works", *arguments[1:]])
    assert len(file.read_text().splitlines()) == 4
    quick.main([*arguments, "--tiny"])  # another size is another part
    assert json.loads(file.read_text().splitlines()[4])["part"] == "works"
    capsys.readouterr()
    quick.main(["show", "--results", str(file)])
    assert "| speed 2 |" in capsys.readouterr().out


@pytest.mark.long
def test_a_real_part_runs_and_leaves_its_line(benchmark: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    benchmark.main(["run", "rate", "--device", "cpu", "--tiny", "--results", str(file)])
    (line,) = (json.loads(line) for line in file.read_text().splitlines())
    assert (line["part"], line["tiny"], line["failed"], line["output"]) == ("rate", True, "", "")
    assert (line["torch"], line["python"]) == (torch.__version__, platform.python_version())
    assert line["device"].startswith("cpu: ")
    assert re.fullmatch(r"[0-9a-f]{7,}", line["commit"]) or not (benchmark.ROOT / ".git").exists()
    assert 0 < line["seconds"] < benchmark.LONGEST
    assert set(line["values"]) == {"TFLOP/s, float32", "TFLOP/s, TF32"}
    assert min(line["values"].values()) > 0


@pytest.mark.slow
def test_all_parts_work_at_a_size_of_seconds(benchmark: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    speeds = [part.name for part in benchmark.PARTS if "/" not in part.name]
    benchmark.main(["run", *speeds, "--device", "cpu", "--tiny", "--results", str(file)])
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["part"], line["failed"]) for line in lines] == [(name, "") for name in speeds]
