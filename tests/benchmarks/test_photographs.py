"""Encoders that clients train are compared; a cell that is known is not made again."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest


@pytest.mark.filterwarnings("ignore:kin-graph finds one cluster")
def test_encoders_of_the_clients_are_compared(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 60)
    colours = np.where(y[:, None] == 0, [0.9, 0.1, 0.1], [0.1, 0.1, 0.9])
    x = (colours[:, :, None, None] + 0.05 * rng.random((120, 3, 8, 8))).astype(np.float32)
    monkeypatch.setattr(benchmark, "photographs", lambda data, samples, seed: (x, {"label": y}))
    words = ["run", str(tmp_path / "cells.csv"), "--data", "colours", "--p", "0", "--rounds", "1"]
    benchmark.main([*words, "--features", "raw"])
    benchmark.main([*words, "--features", "raw", "autoencoder"])
    cells = pd.read_csv(tmp_path / "cells.csv")
    assert cells["features"].tolist() == ["raw", "autoencoder"]  # what is known is not done again
    assert cells["nmi_kmeans"].tolist() == [1, 1]
    assert cells["nmi_given"].tolist() == [1, 1]
    assert "| colours | label | 0 | autoencoder | 1 |" in benchmark.shown(cells)
