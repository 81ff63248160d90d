"""What is measured on runs that cluster samples, beside what their records say."""

from pathlib import Path

import numpy as np
import pytest

from fedkin.clustering.metrics import clustering_accuracy
from fedkin.core import FedkinError
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


def test_first_clusters_that_a_client_made_itself_are_made_again(tmp_path: Path) -> None:
    found = run(tmp_path / "run", "fedcref", *FEDCREF, "method.initial=kmeans", "method.stability=0.0")
    again = run(tmp_path / "again", "fedcref", *FEDCREF, "method.initial=kmeans", "method.stability=0.0")
    assert measured(found, "initial/accuracy") == measured(again, "initial/accuracy")
    assert 0.5 < (measured(found, "initial/accuracy") or 0) <= 1


def test_clusters_alone_are_a_share_of_those_at_the_start(tmp_path: Path) -> None:
    settings = ["scenario.initial=dirty", "scenario.dirtiness=0.0", "method.associations=paper"]
    nobody = run(tmp_path / "nobody", "fedcref", *FEDCREF, *settings, "method.threshold=0.0")
    everybody = run(tmp_path / "everybody", "fedcref", *FEDCREF, *settings, "method.threshold=1.0")
    assert measured(nobody, "unmatched/fraction") == 1
    assert measured(everybody, "unmatched/fraction") == 0


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


def test_first_clusters_are_fedcrefs_alone(tmp_path: Path) -> None:
    found = run(tmp_path / "run", "kmeans", "method.n_clusters=10", "scenario.heterogeneity=0.5")
    with pytest.raises(FedkinError, match="a run of kmeans; only fedcref has first clusters"):
        measured(found, "initial/accuracy")


def test_a_truth_is_needed(tmp_path: Path) -> None:
    """Clients without a column of classes have nothing to judge by."""
    (tmp_path / "clients").mkdir()
    rng = np.random.default_rng(0)
    for client in range(2):
        np.savez(tmp_path / "clients" / f"{client}.npz", x=rng.normal(size=(20, 3)) + [[0, 0, 0], [9, 9, 9]] * 10)
    settings = ["scenario.name=files", f"data.source={tmp_path / 'clients'}"]
    clustered = run(tmp_path / "kmeans", "kmeans", *settings, "method.n_clusters=2")
    with pytest.raises(FedkinError, match="has no classes to count"):
        measured(clustered, "imbalance/1")
    refined = run(
        tmp_path / "fedcref", "fedcref", *settings, *FEDCREF[2:-1], "method.n_clusters=2", "method.initial=kmeans"
    )
    with pytest.raises(FedkinError, match="has no classes to judge its first clusters by"):
        measured(refined, "initial/accuracy")
