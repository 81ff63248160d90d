"""A fedkin app in NVFlare's simulator, by its Flower integration; skipped without NVFlare (make nvflare)."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from running import ENVIRONMENT, fedkin
from safetensors.torch import load_file
from sklearn.datasets import load_digits

from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute

pytest.importorskip("nvflare")

SITES = 2
JOB = """
import sys
from nvflare.app_opt.flower.recipe import FlowerRecipe
from nvflare.recipe import SimEnv
folder, sites = sys.argv[1], int(sys.argv[2])
patience = dict.fromkeys(("configure_task_timeout", "start_task_timeout", "superlink_ready_timeout"), 300)
patience |= {"max_client_op_interval": 900.0, "per_msg_timeout": 60.0, "tx_timeout": 600.0}
recipe = FlowerRecipe(
    flower_content=folder + "/app",
    min_clients=sites,
    extra_env={"FEDKIN_SITE": folder + "/{client-name}/site.toml"},
    run_config={"out": folder + "/results"},
    **patience,
)
recipe.execute(SimEnv(num_clients=sites, workspace_root=folder + "/nvflare"))
"""


@pytest.mark.long
def test_an_app_finds_what_the_local_engine_finds(tmp_path: Path) -> None:
    settings = ["method.n_clusters=8", "data.scaling=none"]
    (tmp_path / "data").mkdir()
    x, y = load_digits(return_X_y=True)
    for i in range(SITES):
        name, held = f"site-{i + 1}", np.isin(y, [(i + k) % 10 for k in range(6)])  # NVFlare's names
        data = tmp_path / "data" / f"{name}.npz"
        np.savez(data, x=(x[held] / 16).astype(np.float32), y=y[held])
        (tmp_path / name).mkdir()
        (tmp_path / name / "site.toml").write_text(f'name = "{name}"\ndata = "{data}"\nfolder = "private"\n')
    set_words = [word for setting in settings for word in ("--set", setting)]
    fedkin("federation", "init", str(tmp_path / "app"), "kfed", "--sites", str(SITES), "--host", "127.0.0.1",
           "--insecure", *set_words)  # fmt: skip
    job = [sys.executable, "-c", JOB, str(tmp_path), str(SITES)]
    ended = subprocess.run(job, env=ENVIRONMENT, capture_output=True, text=True, timeout=1800)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    here = [f'data.source="{tmp_path / "data"}"', "simulation.scenario=files", *settings]
    local = execute(load_config("kfed", here), tmp_path / "local").folder
    found, expected = (load_file(folder / "models.safetensors") for folder in (tmp_path / "results", local))
    assert all(torch.allclose(found[key], expected[key], atol=1e-5) for key in expected)
    for i in range(SITES):
        [there] = (tmp_path / f"site-{i + 1}" / "private" / "results").glob("*/labels/*.csv")
        assert there.read_text() == (local / "labels" / there.name).read_text()
