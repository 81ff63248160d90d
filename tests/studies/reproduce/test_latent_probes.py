"""How well classes are separated in networks' latents."""

from pathlib import Path

import pytest
import torch
from sklearn.metrics import calinski_harabasz_score

from fedkin.experiment.config import load_config
from fedkin.experiment.outputs import load_found
from fedkin.experiment.run import execute
from fedkin.studies.reproduce.measures import FinishedRun, _of_two_classes, measured

COMMON = ["evaluation.map=none", "device.workers=1", "data.source=digits", "simulation.fraction=0.15"]
TINY = ["method.latent=8", "method.projector_units=16", "method.restarts=1", "method.pretrain_rounds=2"]
TINY += ["method.batch_size=16", "method.cluster_rounds=1"]


def run(folder: Path, method: str, *settings: str) -> FinishedRun:
    return FinishedRun(execute(load_config(method, [*COMMON, *settings]), folder).folder)


def test_scores_are_of_the_samples_and_of_the_latents(tmp_path: Path) -> None:
    found = run(tmp_path / "run", "ccfc", *TINY, "simulation.heterogeneity=0.0")
    population = load_config("ccfc", [*COMMON, "simulation.heterogeneity=0.0"]).scenario.build(0)
    assert population.truth is not None
    x, y = torch.cat([client.x for client in population.clients]), torch.cat(population.truth)
    saved = load_found(found.folder)
    x = saved.preparation.prepared(x)
    expected = calinski_harabasz_score(x.flatten(1), y)
    assert measured(found, "separation/samples") == pytest.approx(expected, rel=1e-4)
    latents = saved.method.embed(saved.result, x)
    assert measured(found, "separation/latents") == pytest.approx(calinski_harabasz_score(latents, y), rel=1e-4)
    first = len(population.clients[0])
    expected = calinski_harabasz_score(latents[:first], y[:first])
    assert measured(found, "separation/client-common") == pytest.approx(expected, rel=1e-4)
    assert measured(found, "separation/client-local") not in (None, pytest.approx(expected, rel=1e-6))
    assert measured(found, "separation/local") not in (None, measured(found, "separation/common"))


def test_two_classes_are_drawn_with_as_many_samples_as_they_have() -> None:
    y = torch.tensor([0] * 300 + [4] * 20 + [7] * 150)
    chosen = [_of_two_classes(y, torch.Generator().manual_seed(seed)) for seed in range(8)]
    for rows in chosen:
        classes, counts = y[rows].unique(return_counts=True)
        assert len(classes) == 2
        assert [min(100, int((y == one).sum())) for one in classes] == counts.tolist()
    assert len({tuple(y[rows].unique().tolist()) for rows in chosen}) > 1
