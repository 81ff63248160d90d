"""Starting from shared networks gives what every method gives when it trains its own."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute
from fedkin.experiment.run_folder import RECORDS

SMALL = ["scenario.fraction=0.2", "method.min_steps=2", "engine.workers=1"]


def test_every_method_finds_what_it_finds_alone(benchmark: ModuleType, tmp_path: Path) -> None:
    sizes = ["--capacity", "0.05", "--epochs", "2", "--server-epochs", "1"]
    arguments = [str(tmp_path), "--data", "digits", "--heterogeneity", "0.5", *sizes, "--set", *SMALL]
    benchmark.main(arguments)
    written = {folder: (folder / RECORDS).read_bytes() for folder in tmp_path.glob("digits-*")}
    assert len(written) == 3
    benchmark.main(arguments)  # nothing is left to do
    for label, method, more in (
        ("sda-fc-kmeans", "sda-fc", []),
        ("sda-fc-fuzzy", "sda-fc", ['method.clustering="fuzzy"']),
        ("ppfc-gan", "ppfc-gan", ["method.pretrain_epochs=1", "method.cluster_epochs=1"]),
    ):
        folder = tmp_path / f"digits-{label}-p0.5-a0-s0"
        assert (folder / RECORDS).read_bytes() == written[folder]
        settings = [
            "data.source=digits",
            "scenario.name=own-class",
            "scenario.heterogeneity=0.5",
            "evaluation.map=none",
        ]
        trained = ["method.capacity=0.05", "method.epochs=2", *SMALL, *more]
        alone = execute(load_config(method, [*settings, *trained]), tmp_path / "alone" / label)
        assert alone.records[-1]["metrics"] == json.loads(written[folder].splitlines()[-1])["metrics"]
