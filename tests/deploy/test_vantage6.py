"""fedkin's algorithm of vantage6, with its mock client; skipped without vantage6 (make vantage6)."""

import io
import sys
import zipfile
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

mock_client = pytest.importorskip("vantage6.algorithm.tools.mock_client")

from fedkin.core import FedkinError  # noqa: E402
from fedkin.experiment.config import load_config  # noqa: E402
from fedkin.experiment.run import execute  # noqa: E402

ROOT = Path(__file__).parent.parent.parent
SETTINGS = ["method.n_clusters=3", "data.scaling=standard"]
SECRET = 73.625

pytestmark = pytest.mark.filterwarnings("ignore")  # of vantage6's own packages


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[pd.DataFrame]:
    """A table for each of three organizations, also as files, in a folder for the nodes."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "docker" / "vantage6")])
    monkeypatch.setenv("TEMPORARY_FOLDER", str(tmp_path / "nodes"))
    (tmp_path / "data").mkdir()
    rng, frames = np.random.default_rng(0), []
    for i in range(3):
        x = rng.normal(size=(40, 3)) + 8 * rng.permutation(np.repeat([0, 1, 2, 2], 10))[:, None]
        frames.append(pd.DataFrame(x, columns=["age", "weight", "height"]))
        frames[-1].to_csv(tmp_path / "data" / f"organization-{i}.csv", index=False)
    return frames


def run(tables: list[pd.DataFrame], *settings: str) -> dict[str, Any]:
    client = mock_client.MockAlgorithmClient([[{"database": table}] for table in tables], "fedkin_vantage6")
    task = {"method": "central", "kwargs": {"method": "kfed", "settings": [*SETTINGS, *settings]}}
    return client.result.from_task(client.task.create(input_=task, organizations=[0])["id"])[0]


def test_the_collaboration_finds_what_the_local_engine_finds(tables: list[pd.DataFrame], tmp_path: Path) -> None:
    zipfile.ZipFile(io.BytesIO(b64decode(run(tables)["results"]))).extractall(tmp_path / "results")
    here = [f'data.source="{tmp_path / "data"}"', "simulation.scenario=files", *SETTINGS]
    local = execute(load_config("kfed", here), tmp_path / "local").folder
    assert (tmp_path / "results" / "models.safetensors").read_bytes() == (local / "models.safetensors").read_bytes()
    found, expected = [], []
    for i in range(3):
        [own] = (tmp_path / "nodes" / f"organization-{i}" / "private" / "results").glob("*/labels/*.csv")
        found += pd.read_csv(own)["cluster"].tolist()
        expected += pd.read_csv(local / "labels" / f"organization-{i}.csv")["cluster"].tolist()
    assert found == expected
    assert not {"federation.json", "labels"} & {path.name for path in (tmp_path / "results").iterdir()}


def test_a_node_keeps_its_own_rules_and_shows_no_value(
    tables: list[pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    tables[1].loc[0, "age"] = SECRET
    monkeypatch.setenv("FEDKIN_POLICY_TEXT", 'methods = ["ocfl"]')
    with pytest.raises(FedkinError, match=r"policy refuses this: methods\."):
        run(tables)
    shown = "".join(capfd.readouterr())
    assert str(SECRET) not in shown
    assert "policy refuses this: methods" in (tmp_path / "nodes" / "organization-1" / "log.txt").read_text()
    monkeypatch.setenv("FEDKIN_SITE_TEXT", 'lable = "age"')
    with pytest.raises(FedkinError, match="0 of 3 sites"):
        run(tables, "federation.patience=1")
