"""A category beside two numbers by one command, in one space and in both."""

from types import ModuleType

import pytest


def test_the_second_space_is_better_where_numbers_show_clusters(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark, "CASES", ((2, 1, 0.6, True),))
    monkeypatch.setattr("sys.argv", ["it", "--draws", "1", "--rows", "300"])
    usual = benchmark.kingraph.are_better_separated
    benchmark.main()
    assert benchmark.kingraph.are_better_separated is usual
    (row,) = capsys.readouterr().out.splitlines()[2:]
    name, *cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert name == "2, 1, 60 %"
    one, found, one_given, given, _ = map(float, cells)
    assert found > one + 0.1
    assert given > one_given + 0.1
