"""What is measured on a run's result: nearest neighbours, and what an attacker makes of messages."""

import json
from pathlib import Path

import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute
from fedkin.studies.reproduce.measures import FinishedRun, accuracies, measured


def test_the_majority_is_that_of_scikit_learns_neighbours() -> None:
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(3, (300,), generator=rng)
    points = torch.eye(3)[y] + 0.6 * torch.randn(300, 3, generator=rng)
    held_out = torch.rand(300, generator=rng) < 0.2
    seen = accuracies(points, y, held_out, (1, 5, 1000))
    unit = torch.nn.functional.normalize(points, dim=1).numpy()
    expected = []
    for k in (1, 5, int((~held_out).sum())):
        judge = KNeighborsClassifier(k).fit(unit[~held_out], y[~held_out])
        expected.append(judge.score(unit[held_out], y[held_out]))
    assert seen == pytest.approx(expected, abs=0.02)


def test_neighbours_judge_a_run_once(tmp_path: Path) -> None:
    options = ["n_clusters=10", "pretrain_rounds=1", "cluster_rounds=0", "latent=4", "restarts=1", "model_weight=0"]
    settings = [f"method.{option}" for option in options]
    execute(load_config("scfc", ["scenario.fraction=0.2", "evaluation.map=none", *settings]), tmp_path / "run")
    run = FinishedRun(tmp_path / "run")
    samples, latents = measured(run, "knn-samples/3"), measured(run, "knn/3")
    assert samples is not None
    assert latents is not None
    assert 0.5 < samples <= 1
    assert 0 <= latents <= 1
    assert measured(run, "knn/4") is None
    kept = tmp_path / "run" / "probe-knn.json"
    kept.write_text(json.dumps({"3": 2.0}))
    assert measured(run, "knn/3") == 2.0
