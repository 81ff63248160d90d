from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toy: None) -> None:
    monkeypatch.chdir(tmp_path)
