"""Pixels as columns by one command, on the digits."""

from types import ModuleType

import pytest


def test_images_that_are_recognised_are_clustered_better(
    benchmark: ModuleType, monkeypatch, capsys: pytest.CaptureFixture[str]
):
    x, y = benchmark.pixels("digits", 0)
    few = (y < 4).nonzero()[0][:120]
    monkeypatch.setattr(benchmark, "pixels", lambda name, samples: (x[few], y[few]))
    monkeypatch.setattr("sys.argv", ["it", "--data", "digits", "--clients", "2"])
    benchmark.main()
    rows = [line.split("|")[4:6] for line in capsys.readouterr().out.splitlines() if line.startswith("| digits")]
    assert len(rows) == 4
    assert all(float(images.split("/")[0]) >= 0.4 for images, _ in rows)
