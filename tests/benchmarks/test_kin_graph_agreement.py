"""Agreement between divisions by one command, on a table that scikit-learn has."""

from types import ModuleType

import pytest


def test_it_prints_tables_and_means_by_stability(
    benchmark: ModuleType, monkeypatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("sys.argv", ["it", "--tables", "iris", "wine", "digits", "--divisions", "2"])
    benchmark.main()
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if line.startswith("| digits")]
    assert len(rows) == 1
    assert not any(line.startswith("| iris") for line in lines), "few micro-clusters have no stability that decides"
    assert lines[-1].split("|")[2].strip() == "1"
