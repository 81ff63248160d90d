"""ARFF files are tables with a label; what does not fit is left out."""

from pathlib import Path
from types import ModuleType

import pytest

HEAD = """% A comment
@RELATION animals
@ATTRIBUTE 'body length' NUMERIC
@ATTRIBUTE Class {cat, dog}
@attribute fur {'long, soft', short}

@DATA
"""


def test_tables_with_a_fitting_label_are_listed(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ["?,cat,'long, soft'", "% nothing", "2.5, dog, short"] * 50
    (tmp_path / "animals.arff").write_text(HEAD + "\n".join(rows))
    (tmp_path / "few.arff").write_text(HEAD + "\n".join(rows[:9]))
    (tmp_path / "alike.arff").write_text(HEAD + "\n".join(rows[:1] * 100))
    monkeypatch.setenv("FEDKIN_ARFF", str(tmp_path))
    assert list(benchmark.arff_sources()) == ["animals"]
    frame, labels = benchmark.arff_sources()["animals"](0)
    assert list(frame) == ["body length", "fur"]
    assert frame["body length"].isna().sum() == 50
    assert set(frame["fur"]) == {"long, soft", "short"}
    assert labels.tolist() == [0, 1] * 50


def test_without_a_folder_there_are_none(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDKIN_ARFF", raising=False)
    assert benchmark.arff_sources() == {}
