"""Tables of few rows by one command, on one of them."""

import json
from pathlib import Path
from types import ModuleType

import numpy as np
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


@pytest.mark.filterwarnings("ignore:One cluster was found")
def test_one_cluster_is_right_where_there_are_none(benchmark: ModuleType) -> None:
    drawn = dict(benchmark.tables("none", 60))
    assert set(drawn) == set(benchmark.WITHOUT)
    frame, truth = drawn["correlated"](3)
    assert frame.shape[0] == len(truth) == 60
    assert abs(frame.corr().to_numpy() - np.eye(frame.shape[1])).max() > 0.3
    found, *_ = benchmark.scores(drawn["uniform"], 60, 3, 0)
    assert found == (1.0, 1)


def test_a_table_with_fewer_rows_is_left_out(benchmark: ModuleType) -> None:
    assert benchmark.scores(lambda seed: benchmark.clouds(50, 2, "normal", seed), 60, 3, 0) is None
