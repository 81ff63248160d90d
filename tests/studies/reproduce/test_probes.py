"""What is measured on a run's result: nearest neighbours, skipped rounds, and first clusters."""

import json
from pathlib import Path

import pytest

from fedkin.clustering.metrics import clustering_accuracy
from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute
from fedkin.studies.reproduce.measures import FinishedRun, measured

COMMON = ["evaluation.map=none", "device.workers=1"]
CCFC = ["simulation.fraction=0.06", "simulation.heterogeneity=0.0", "method.latent=8", "method.projector_units=16",
        "method.pretrain_rounds=2", "method.batch_size=16", "method.cluster_rounds=1"]  # fmt: skip
FEDCREF = ["simulation.clients=3", "simulation.samples_per_class=20",
           "simulation.dirtiness=0.5", "method.local_epochs=1", "method.rounds=1", "method.round_epochs=1",
           "method.min_steps=0", "method.max_iterations=1", "method.n_clusters=given"]  # fmt: skip


def run(folder: Path, method: str, settings: list[str]) -> FinishedRun:
    return FinishedRun(execute(load_config(method, [*COMMON, *settings]), folder).folder)


def test_neighbours_are_measured_once(tmp_path: Path) -> None:
    finished = run(tmp_path / "run", "ccfc", CCFC)
    assert 0.5 < (measured(finished, "knn-samples/3") or 0) <= 1
    assert 0 <= (measured(finished, "knn/3") or 0) <= 1
    (finished.folder / "probe-knn.json").write_text(json.dumps({"3": 2.0}))
    assert measured(finished, "knn/3") == 2.0


def test_rounds_that_a_run_was_spared_have_the_agreement_of_its_last(tmp_path: Path) -> None:
    settings = ["method.module=perceptron", "simulation.clients=6", "method.rounds=40", "method.clusterer=kmeans"]
    stop = ["evaluation.target=splits", "evaluation.reach=1", "evaluation.stop=true"]
    finished = run(tmp_path / "run", "ocfl", [*settings, *stop])
    rounds, values = len(finished.records), finished.values("temperature")
    assert rounds < 40
    assert finished.values("ari") == [*[0] * (rounds - 1), 1] or finished.values("ari")[-1] == 1
    assert measured(finished, "all-rounds/ari") == pytest.approx((41 - rounds) / 40)
    assert measured(finished, "all-rounds/completeness") == pytest.approx(1)
    first, lowest, rise = (measured(finished, f"temperature/{key}") for key in ("first", "lowest", "rise"))
    assert (first, lowest, rise) == (values[0], values[-2], values[-1])
    assert measured(finished, "temperature/drop") == pytest.approx((values[0] or 0) - (values[-2] or 0))


def test_first_clusters_are_those_that_the_run_began_with(tmp_path: Path) -> None:
    finished = run(tmp_path / "dirty", "fedcref", FEDCREF)
    population = load_config("fedcref", [*COMMON, *FEDCREF]).scenario.build(0)
    assert population.truth is not None
    pairs = zip(population.truth, population.clients, strict=True)
    expected = sum(clustering_accuracy(y, client.state["given"]) for y, client in pairs) / 3
    assert measured(finished, "initial/accuracy") == pytest.approx(expected)
    last = finished.values("accuracy")[-1] or 0
    assert measured(finished, "initial/improvement") == pytest.approx(last / expected - 1)
