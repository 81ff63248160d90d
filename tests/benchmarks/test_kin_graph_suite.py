"""The suite of clustering algorithms by one command, on a small set of its form."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest


def test_it_appends_skips_and_shows(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    folder, rng = tmp_path / "clustering" / "own", np.random.default_rng(0)
    folder.mkdir(parents=True)
    truth = np.arange(60) % 2
    np.savetxt(folder / "two.data.gz", rng.normal(size=(60, 2)) / 5 + 3 * truth[:, None])
    np.savetxt(folder / "two.labels0.gz", truth + 1)
    monkeypatch.setenv("FEDKIN_DATA", str(tmp_path))
    monkeypatch.setattr(benchmark, "CLIENTS", (3,))
    monkeypatch.setattr(benchmark, "FLOORS", (5,))
    found = tmp_path / "found.csv"
    for _ in range(2):
        benchmark.main(["run", str(found), "--seeds", "0"])
        lines = pd.read_csv(found, keep_default_na=False)
        assert len(lines) == 3 + 2 * 2
    assert (lines[lines.given].ari == 1.0).all()
    benchmark.main(["show", str(found)])
    assert "1 data sets" in capsys.readouterr().out
    parts = tmp_path / "parts.csv"
    benchmark.main(
        ["run", str(parts), "--seeds", "0", "1", "--part", "0.5", "--methods", "common", "--numbers", "found"]
    )
    lines = pd.read_csv(parts, keep_default_na=False)
    assert lines.samples.tolist() == [30, 30]
