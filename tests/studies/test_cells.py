"""Whether what one half of the samples finds is found again in the other."""

from pathlib import Path

import numpy as np
import pytest

from fedkin.core.progress import Callback
from fedkin.data.scenarios.already_split import ClientFiles
from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute
from fedkin.studies.cells import agreement, looked_at, run_cell
from site_files import sites

RNG = np.random.default_rng(3)


def result_on(sources: list[np.ndarray], method: str = "kfed", clusters: int = 3, seed: int = 0):
    settings = [f"method.n_clusters={clusters}", f"seed={seed}", "data.source=x", "scenario.name=files"]
    return run_cell(load_config(method, settings), ClientFiles(sources, "none").build(), Callback())


def test_separate_clusters_are_found_again_and_pieces_of_a_cloud_less_so() -> None:
    clusters = [RNG.normal(size=(90, 2)) + 9 * np.eye(3, 2)[np.arange(90) % 3] for _ in range(3)]
    cloud = [RNG.normal(size=(90, 6)) for _ in range(3)]
    found, pieces = result_on(clusters), result_on(cloud)
    assert found.again == pytest.approx(1, abs=0.02)
    assert found.clusters == 3
    assert pieces.again is not None
    assert pieces.again < 0.6
    assert result_on(cloud, seed=1).again != pieces.again  # another split


def test_a_cell_has_the_clusters_bytes_and_steps_of_a_run(tmp_path: Path) -> None:
    folder = sites(tmp_path / "sites")
    config = load_config("kfed", ["method.n_clusters=2", f"data.source={folder}", "scenario.name=files"])
    cell = run_cell(config, config.population(), Callback())
    outcome = execute(config, tmp_path / "run")
    assert cell.labels == [one for path in sorted((tmp_path / "run" / "labels").iterdir()) for one in
                           np.loadtxt(path, int, delimiter=",", skiprows=1, usecols=1).tolist()]  # fmt: skip
    last = outcome.records[-1]
    assert (cell.bytes, cell.steps) == (last["sent"] + last["received"], last["step"])
    assert cell.metrics["ari"] == last["metrics"]["ari"]


def test_a_single_cluster_is_no_agreement() -> None:
    one, two = np.zeros(6, dtype=np.int64), np.array([0, 0, 0, 1, 1, 1])
    assert agreement(two, two) == 1
    assert agreement(one, one) == agreement(one, two) == 0
    assert agreement(one, one, single=1.0) == 1
    assert agreement(np.array([-1, -1, 0, 1]), np.array([0, 1, -1, -1])) == 0
    assert len(looked_at(5000)) == 2000
