"""The list of what needs a GPU, on the processor."""

import json
import platform
import re
import sys
from fnmatch import fnmatch
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
    head, _, *rows = (
        [cell.strip(" *") for cell in line.strip("|").split("|")]
        for line in re.search(r"^\| \| GPU \|.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)[0].strip().splitlines()  # type: ignore[index]
    )
    assert head[1:] == list(COLUMNS)
    assert [row[0].partition(":")[0] for row in rows] == list(ROWS)
    for row, part in zip(rows, ROWS.values(), strict=True):
        values = on_gpu(benchmark)[part]
        for name, cell in zip(COLUMNS.values(), row[1:], strict=True):
            shown = re.match(r"[\d.]+", cell)
            assert (shown is None) == (name not in values), (part, name)
            assert shown is None or float(shown[0]) == float(f"{values[name]:.2g}"), (part, name)


def test_figures_in_sentences_of_the_page_are_those_of_the_results(benchmark: ModuleType) -> None:
    values = on_gpu(benchmark)
    rates = values["rate"]
    text = " ".join(PAGE.split())
    assert f"{rates['TFLOP/s, float32']:.0f} TFLOP/s in float32, {rates['TFLOP/s, TF32']:.0f} with TF32" in text
    lenet = values["fedavg-lenet"]
    assert f"at least 20 times as fast as a plain loop | {lenet['times as long, plain loop']:.0f} times |" in text
    assert f"recorded steps brought {lenet['times as long, not recorded']:.1f} times" in text
    (small,) = (line for line in benchmark.lines_of(benchmark.RESULTS) if line["part"] == "fedavg-small")
    assert f"did not finish in the {small['seconds']:.0f} seconds" in text
    tests = [line for line in benchmark.lines_of(benchmark.RESULTS) if line["part"] == "tests"][-1]["values"]
    assert f"{tests['passed']:.0f} of {sum(tests.values()):.0f} tests" in text


def test_the_page_names_the_parts_that_never_ran_on_a_gpu(benchmark: ModuleType) -> None:
    sentences = re.search(r"never ran to their end on a GPU.*?\n\* ", PAGE, re.DOTALL)
    assert sentences
    named = re.findall(r"`([^-`][^`]*)`", sentences[0])
    parts, ended = {part.name for part in benchmark.PARTS}, {"tests", *on_gpu(benchmark)}
    found = {part for part in parts if any(fnmatch(part, pattern) for pattern in named)}
    assert found == parts - ended
    assert all(any(fnmatch(part, pattern) for part in parts) for pattern in named)


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
        assert line["seeds"] == seeds[line["part"]]
