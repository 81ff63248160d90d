"""The list of what needs a GPU, on the processor."""

import json
import platform
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

PAGE = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text()
COLUMNS = {
    "GPU": "seconds",
    "16 cores": "times as long, processor",
    "plain loop, GPU": "times as long, plain loop",
    "one client at a time, GPU": "times as long, in turn",
    "without CUDA graphs": "times as long, not recorded",
}
"""What the columns of the page's table show, of a part's values."""
ROWS = {"FedCRef": "fedcref", "FedAvg": "fedavg-lenet", "CCFC": "ccfc"}


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


def test_a_part_that_is_not_there_is_named(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        benchmark.main(["run", "abacus"])
    assert "no part is called abacus" in capsys.readouterr().err


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


def on_gpu(benchmark: ModuleType) -> dict[str, dict[str, float]]:
    """The values of the parts that ended on a GPU, by part; the last ones."""
    lines = [line for line in benchmark.lines_of(benchmark.RESULTS) if not line["tiny"] and not line["failed"]]
    return {line["part"]: line["values"] for line in lines if line["device"].startswith("cuda")}


def test_the_table_of_the_page_has_the_figures_of_the_results(benchmark: ModuleType) -> None:
    found = re.search(r"^\| \| GPU \|.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    head, _, *rows = (
        [cell.strip(" *") for cell in line.strip("|").split("|")] for line in found[0].strip().splitlines()
    )
    assert [row[0].partition(":")[0] for row in rows] == list(ROWS)
    for row, part in zip(rows, ROWS.values(), strict=True):
        values = on_gpu(benchmark)[part]
        for name, cell in zip(head[1:], row[1:], strict=True):
            shown = re.match(r"[\d.]+", cell)
            assert (shown is None) == (COLUMNS[name] not in values), (part, name)
            assert shown is None or float(shown[0]) == float(f"{values[COLUMNS[name]]:.2g}"), (part, name)


@pytest.mark.slow
def test_all_parts_work_at_a_size_of_seconds(benchmark: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    speeds = [part.name for part in benchmark.PARTS if "/" not in part.name]
    benchmark.main(["run", *speeds, "--device", "cpu", "--tiny", "--results", str(file)])
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["part"], line["failed"]) for line in lines] == [(name, "") for name in speeds]


def test_a_line_has_the_seeds_of_its_part(benchmark: ModuleType) -> None:
    seeds = {part.name: benchmark.seeds_of(part.command("cuda", False)) for part in benchmark.PARTS}
    assert (seeds["rate"], seeds["ccfc/full-0.5-2"], seeds["fedcref/table-6"]) == ([0], [2], [0, 1, 2, 3, 4])
    for line in benchmark.lines_of(benchmark.RESULTS):
        assert line["seeds"] == seeds.get(line["part"], [0])
