"""What is measured on runs that cluster samples, beside what their records say."""

from pathlib import Path

import pytest

from fedkin.clustering.metrics import clustering_accuracy
from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute
from fedkin.studies.reproduce.measures import FinishedRun, measured

COMMON = ["evaluation.map=none", "engine.workers=1"]
SITES = ["scenario.clients=3", "scenario.samples_per_class=20"]
SHORT = ["method.local_epochs=1", "method.rounds=1", "method.round_epochs=1", "method.min_steps=0"]
FEDCREF = [*SITES, *SHORT, "method.max_iterations=1", "method.n_clusters=given"]


def run(folder: Path, method: str, *settings: str) -> FinishedRun:
    return FinishedRun(execute(load_config(method, [*COMMON, *settings]), folder).folder)


def test_first_clusters_are_those_that_the_run_began_with(tmp_path: Path) -> None:
    settings = ["scenario.initial=dirty", "scenario.dirtiness=0.5"]
    found = run(tmp_path / "dirty", "fedcref", *FEDCREF, *settings)
    population = load_config("fedcref", [*COMMON, *FEDCREF, *settings]).scenario.build(0)
    truth = population.truth
    assert truth is not None
    expected = [
        clustering_accuracy(y, client.state["given"]) for y, client in zip(truth, population.clients, strict=True)
    ]
    first, better = measured(found, "initial/accuracy"), measured(found, "initial/improvement")
    assert first == pytest.approx(sum(expected) / 3)
    assert first is not None
    assert better == pytest.approx((found.values("accuracy")[-1] or 0) / first - 1)


def test_single_clients_have_a_kappa_and_an_imbalance(tmp_path: Path) -> None:
    found = run(tmp_path / "run", "kmeans", "method.n_clusters=10", "scenario.heterogeneity=0.5")
    kappas = found.records[-1]["metrics"]["kappas"]
    assert measured(found, "within/3") == kappas[2]
    assert measured(found, "within/mean") == pytest.approx(sum(kappas) / len(kappas))
    assert measured(found, "within/0") is None
    truth = (
        load_config("kmeans", [*COMMON, "method.n_clusters=10", "scenario.heterogeneity=0.5"]).scenario.build(0).truth
    )
    assert truth is not None
    counts = sorted((truth[4] == label).sum().item() for label in range(10))
    assert measured(found, "imbalance/5") == pytest.approx(counts[-1] / counts[0])
