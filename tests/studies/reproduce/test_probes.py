"""What is measured on a run's result: nearest neighbours, and what an attacker makes of messages."""

import json
from pathlib import Path

import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from fedkin.clustering.metrics import clustering_accuracy
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
    execute(load_config("scfc", ["simulation.fraction=0.2", "evaluation.map=none", *settings]), tmp_path / "run")
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


COMMON = ["evaluation.map=none", "device.workers=1", "method.module=perceptron"]


def run(folder: Path, method: str, *settings: str) -> FinishedRun:
    return FinishedRun(execute(load_config(method, [*COMMON, *settings]), folder).folder)


def test_rounds_that_a_run_was_spared_have_the_agreement_of_its_last(tmp_path: Path) -> None:
    stop = ["evaluation.target=splits", "evaluation.reach=1", "evaluation.stop=true"]
    found = run(tmp_path / "run", "ocfl", "simulation.clients=6", "method.rounds=40", "method.clusterer=kmeans", *stop)
    rounds = len(found.records)
    before, last = found.values("ari")[:-1], found.values("ari")[-1]
    assert rounds < 40
    assert last == 1
    assert before == [0] * (rounds - 1)
    assert measured(found, "all-rounds/ari") == pytest.approx((41 - rounds) / 40)
    assert measured(found, "all-rounds/completeness") == pytest.approx(1)
    lowest, first, rise = (measured(found, f"temperature/{key}") for key in ("lowest", "first", "rise"))
    assert lowest is not None
    assert first == pytest.approx(found.values("temperature")[0])
    assert rise == pytest.approx(found.values("temperature")[-1])
    assert lowest == pytest.approx(found.values("temperature")[-2])
    assert rise is not None
    assert lowest < rise
    assert first is not None
    assert measured(found, "temperature/drop") == pytest.approx(first - lowest)


SAMPLE_PROBES_COMMON = ["evaluation.map=none", "device.workers=1"]


SITES = ["simulation.clients=3", "simulation.samples_per_class=20"]


SHORT = ["method.local_epochs=1", "method.rounds=1", "method.round_epochs=1", "method.min_steps=0"]


FEDCREF = [*SITES, *SHORT, "method.max_iterations=1", "method.n_clusters=given"]


def sample_probes_run(folder: Path, method: str, *settings: str) -> FinishedRun:
    return FinishedRun(execute(load_config(method, [*SAMPLE_PROBES_COMMON, *settings]), folder).folder)


def test_first_clusters_are_those_that_the_run_began_with(tmp_path: Path) -> None:
    settings = ["simulation.initial=dirty", "simulation.dirtiness=0.5"]
    found = sample_probes_run(tmp_path / "dirty", "fedcref", *FEDCREF, *settings)
    population = load_config("fedcref", [*SAMPLE_PROBES_COMMON, *FEDCREF, *settings]).scenario.build(0)
    truth = population.truth
    assert truth is not None
    expected = [
        clustering_accuracy(y, client.state["given"]) for y, client in zip(truth, population.clients, strict=True)
    ]
    first, better = measured(found, "initial/accuracy"), measured(found, "initial/improvement")
    assert first == pytest.approx(sum(expected) / 3)
    assert first is not None
    assert better == pytest.approx((found.values("accuracy")[-1] or 0) / first - 1)
