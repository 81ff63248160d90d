"""Tables of few rows by one command, on one of them."""

import json
from pathlib import Path
from types import ModuleType

import pytest


def test_it_appends_skips_and_shows(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark, "NOISE", {"uniform": benchmark.NOISE["uniform"]})
    out = tmp_path / "out.jsonl"
    monkeypatch.setattr("sys.argv", ["it", str(out), "--groups", "clouds", "--rows", "60", "--seeds", "0"])
    for _ in range(2):
        benchmark.main()
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["table"] for line in lines] == [f"clouds/{number}, uniform" for number in (2, 3, 4)]
    given = benchmark.COLUMNS.index("with, given")
    assert all(line["found"][given][0] > 0.8 for line in lines)
    printed = capsys.readouterr().out.splitlines()
    assert printed[:3] == printed[3:]
    assert printed[2].startswith("| clouds | 60 | 3 | 3 | ")


def test_a_table_with_fewer_rows_is_left_out(benchmark: ModuleType) -> None:
    assert benchmark.scores(lambda seed: benchmark.clouds(50, 2, "normal", seed), 60, 3, 0) is None
