"""Tables in a real federation: files of three kinds, columns in another order, empty, missing and rare."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_deployment import DONE, kept, prepared

from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute
from fedkin.experiment.terminal import Quiet


def hospitals(folder: Path) -> dict[str, Path]:
    """Two kinds of patients at each of three hospitals, with ids; only one writes commas and points as all do."""
    rng, frames = np.random.default_rng(0), {}
    for name in ("north", "south", "west"):
        kind = rng.integers(0, 2, 60)
        frame = pd.DataFrame({
            "patient": [f"{name}-{row}" for row in range(60)],
            "age": rng.normal(40 + 30 * kind, 4).round(1),
            "smokes": np.where(kind ^ (rng.random(60) < 0.1), "yes", "no"),
            "ward": np.where(kind, rng.choice(["A", "B"], 60), rng.choice(["C", "D"], 60)),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 60), unit="D"),
        })  # fmt: skip
        frame.loc[rng.choice(60, 6), "age"] = np.nan
        frame.loc[7, "ward"] = f"only in {name}"
        frames[name] = frame
    folder.mkdir()
    paths = {name: folder / f"{name}.{kind}" for name, kind in zip(frames, ("csv", "tsv", "parquet"), strict=True)}
    frames["north"].iloc[:, ::-1].to_csv(paths["north"], sep=";", encoding="utf-8-sig", index=False)
    frames["south"].drop(columns="seen").to_csv(paths["south"], sep="\t", index=False)
    frames["west"].convert_dtypes().astype({"ward": "category"}).to_parquet(paths["west"])
    return paths


@pytest.mark.slow
def test_hospitals_whose_tables_differ_are_one_federation(tmp_path: Path) -> None:
    files = hospitals(tmp_path / "data")
    with prepared(tmp_path / "deployed", files, "kfed", "--insecure", "--set", "method.n_clusters=2") as deployed:
        deployed.hears(deployed.run(), DONE, 300)
        here = [f"data.source='{tmp_path / 'data'}'", "engine.name=local", "scenario.name=files"]
        local = execute(load_config(deployed.app / "experiment.toml", here), tmp_path / "local", Quiet()).folder
        results = deployed.app / "results"
        for name in files:
            own = (kept(deployed, name) / "labels" / f"{name}.csv").read_text()
            assert own == (local / "labels" / f"{name}.csv").read_text()
            assert own.startswith(f"row,patient,cluster,confidence\n0,{name}-0,")
        page = (results / "report.html").read_text()
        assert all(words in page for words in ("high age (", "smokes mostly yes", "all 3 clients"))
