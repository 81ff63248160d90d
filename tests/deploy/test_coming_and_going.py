"""Sites join, leave, return and are late while a real federation runs, as processes of Flower's own on loopback."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import Deployment
from sklearn.datasets import load_digits

DONE = "fedkin: Done; results are in results"
CLUSTERS = {"north": 0, "east": 1, "south": 0, "west": 1}
"""To sites of cluster 1 a 0 is a 9, a 1 an 8, and so on."""


def add_site(deployed: Deployment, name: str) -> None:
    x, y = load_digits(return_X_y=True)
    part = slice(list(CLUSTERS).index(name), None, len(CLUSTERS))
    data = deployed.folder / f"{name}.npz"
    np.savez(data, x=(x[part] / 16).astype(np.float32), y=9 - y[part] if CLUSTERS[name] else y[part])
    deployed.add_site(name, f'name = "{name}"\ndata = "{data}"\nfolder = "private"\n')
    deployed.start_site(name)


def records(deployed: Deployment) -> list[dict[str, Any]]:
    path = deployed.app / "results" / "records.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.slow
def test_sites_join_leave_return_and_are_late(tmp_path: Path) -> None:
    settings = [
        "method.n_clusters=2", "method.start=kmeans", "method.rounds=24", "federation.newcomers=1",
        "federation.quorum=0.6",
    ]  # fmt: skip
    options = [word for setting in settings for word in ("--set", setting)]
    with Deployment(tmp_path, "ifca", "--sites", "3", *options) as deployed:
        deployed.start_server()
        for name in ("north", "east", "south"):
            add_site(deployed, name)
        run = deployed.run()
        deployed.hears(run, "fedkin: Step 2 in ", 600)
        add_site(deployed, "west")
        deployed.hears(run, "fedkin: Site 'west' joins", 300)
        deployed.sites["east"].kill()
        deployed.start_site("east")
        deployed.hears(run, DONE, 900)
        done = records(deployed)
        assert any(late(record) for record in done)
        labels = done[-1]["values"]["labels"][:4]  # east, north and south in order of name, then who joined
        assert min(labels) >= 0  # which clusters are found depends on who was late in the first round
        assert (next((deployed.folder / "west" / "private" / "results").iterdir()) / "models.safetensors").exists()


def late(record: dict[str, Any]) -> list[str]:
    return [client for client, reason in record["missing"].items() if reason.startswith("late: ")]
