"""An entry of a user's own, without a paper: what it need not say, and what is said of its table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import entries
from fedkin.cli import main
from fedkin.core import FedkinError
from fedkin.studies.reproduce.entry import plan_of

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


def test_a_scale_that_an_entry_lacks_is_refused_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _own(tmp_path)
    code, _, error = _reproduced(path, capsys, "--scale", "paper")
    assert (code, error) == (
        2, f"fedkin: {path} has no section [scales.paper], which says how many seeds to run at this scale.\n"
    )  # fmt: skip


def test_a_measure_that_no_record_has_is_an_error_and_not_only_a_dash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _own(tmp_path, measure="nmmi")
    code, text, error = _reproduced(path, capsys)
    assert code == 2
    assert re.search(r"^k-means +–$", text, re.MULTILINE)
    assert error == f"fedkin: The records of {path}'s runs have no number 'nmmi'; did you mean 'nmi'?\n"


def test_a_method_of_another_package_makes_no_colons_in_names_of_folders() -> None:
    rows = [{"name": "own", "set": {"method.name": "fedkin.methods.samples.kfed:KFedMethod", "method.n_clusters": 2}}]
    names = plan_of("try", entries.entry(rows=rows, claims=[]), "quick").jobs
    assert all(name.startswith("fedkin.methods.samples.kfed.KFedMethod-digits-") for name in names)


def test_settings_of_an_entry_are_not_said_to_be_on_the_command_line() -> None:
    rows = [{"name": "k-FED", "set": {"method.name": "kfed", "method.n_cluster": 10}}]
    with pytest.raises(FedkinError, match=r"Unknown key in its settings: 'method\.n_cluster'; did you mean"):
        plan_of("try", entries.entry(rows=rows, claims=[]), "quick")
