"""An entry of a user's own, without a paper: what it need not say, and what is said of its table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import entries
from fedkin.cli import main

pytestmark = pytest.mark.usefixtures("forked_workers")

_ROWS = [{"name": "k-means", "set": {"method.name": "kmeans", "method.n_clusters": 10}}]


def _own(folder: Path, **changes: Any) -> Path:
    """Write an entry of one cell and two seeds, with nothing that only a paper has."""
    tables = entries.tables(rows=_ROWS, claims=[], columns=entries.tables()["columns"][:1])
    del tables["source"], tables["claim"]
    (folder / "own.toml").write_text(entries.tomli_w.dumps(tables | {"scales": {"quick": {"seeds": [0, 1]}}} | changes))
    return folder / "own.toml"


def _reproduced(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int | str | None, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", str(path), "--out", str(path.parent / "out"), "--jobs", "1", *more])
    printed = capsys.readouterr()
    return ended.value.code, printed.out, printed.err


def test_an_own_table_needs_no_paper_and_says_what_stands_behind_its_means(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text, _ = _reproduced(_own(tmp_path), capsys)
    assert code == 0
    assert re.search(r"k-means +0\.\d+ ± 0\.\d+", text)
    assert "Mean over seeds ± half of its 95 % interval (Student's t)." in text
    assert "paper" not in (tmp_path / "out" / "own" / "quick" / "report.html").read_text()


def test_a_measure_that_no_record_has_is_an_error_and_not_only_a_dash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _own(tmp_path, measure="nmmi")
    code, text, error = _reproduced(path, capsys)
    assert code == 2
    assert re.search(r"^k-means +–$", text, re.MULTILINE)
    assert error == f"fedkin: The records of {path}'s runs have no number 'nmmi'; did you mean 'nmi'?\n"
