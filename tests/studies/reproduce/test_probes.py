"""What is measured on a run's result: nearest neighbours, and what an attacker makes of messages."""

import json
from pathlib import Path

import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from fedkin.clustering.metrics import clustering_accuracy
from fedkin.core import FedkinError
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


COMMON = ["evaluation.map=none", "engine.workers=1", "method.module=perceptron"]


def run(folder: Path, method: str, *settings: str) -> FinishedRun:
    return FinishedRun(execute(load_config(method, [*COMMON, *settings]), folder).folder)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """Twelve clients in two worlds, a round of pre-training, messages, three rounds of training."""
    settings = ["scenario.name=rotation", "scenario.clients=12", "scenario.angles=[0, 90]", "evaluation.every=2"]
    method = ["rounds=3", "local_epochs=2", "pretraining_rounds=1", "participation=0.5", "optimizer=adam"]
    target = ["target.metric=personal_accuracy", "target.reach=0.2"]
    folder = tmp_path_factory.mktemp("runs") / "embedded"
    return run(folder, "embedding", *settings, *(f"method.{one}" for one in method), *target)


def test_rounds_that_a_run_was_spared_have_the_agreement_of_its_last(tmp_path: Path) -> None:
    stop = ["target.metric=splits", "target.reach=1", "target.stop=true"]
    found = run(tmp_path / "run", "ocfl", "scenario.clients=6", "method.rounds=40", "method.clusterer=kmeans", *stop)
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


def test_a_target_is_the_experiments_own(embedded: FinishedRun, tmp_path: Path) -> None:
    kept = tmp_path / "probe"
    assert measured(embedded, "target/rounds") == measured(embedded, "rounds_to:personal_accuracy=0.2")
    assert measured(embedded, "target/mb") == measured(embedded, "mb_to:personal_accuracy=0.2")
    kept.mkdir()
    for name in ("records.jsonl", "timing.jsonl", "config.toml"):
        (kept / name).write_bytes((embedded.folder / name).read_bytes())
    config = (kept / "config.toml").read_text()
    (kept / "config.toml").write_text(config.replace("reach = 0.2", "reach = 1.1"))
    assert measured(FinishedRun(kept), "target/rounds") is None
    (kept / "probe-target.json").unlink()
    (kept / "config.toml").write_text(config.replace("reach = 0.2", 'reach = "none"'))
    with pytest.raises(FedkinError, match="has no target to measure what it took"):
        measured(FinishedRun(kept), "target/rounds")


def test_clusters_are_right_without_flips_and_gone_with_nothing_else(embedded: FinishedRun) -> None:
    for way in ("exact", "given"):
        assert measured(embedded, f"flips/{way}@0") == 1
        assert measured(embedded, f"flips/{way}-clusters@0") == 2
    assert measured(embedded, "flips/exact@0.5") == pytest.approx(0, abs=0.1)
    assert measured(embedded, "flips/bayes-clusters@0.05") is not None
    assert measured(embedded, "flips/exact@0.07") is None


SAMPLE_PROBES_COMMON = ["evaluation.map=none", "engine.workers=1"]


SITES = ["scenario.clients=3", "scenario.samples_per_class=20"]


SHORT = ["method.local_epochs=1", "method.rounds=1", "method.round_epochs=1", "method.min_steps=0"]


FEDCREF = [*SITES, *SHORT, "method.max_iterations=1", "method.n_clusters=given"]


def sample_probes_run(folder: Path, method: str, *settings: str) -> FinishedRun:
    return FinishedRun(execute(load_config(method, [*SAMPLE_PROBES_COMMON, *settings]), folder).folder)


def test_first_clusters_are_those_that_the_run_began_with(tmp_path: Path) -> None:
    settings = ["scenario.initial=dirty", "scenario.dirtiness=0.5"]
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


def test_single_clients_have_a_kappa_and_an_imbalance(tmp_path: Path) -> None:
    found = sample_probes_run(tmp_path / "run", "kmeans", "method.n_clusters=10", "scenario.heterogeneity=0.5")
    kappas = found.records[-1]["metrics"]["kappas"]
    assert measured(found, "within/3") == kappas[2]
    assert measured(found, "within/mean") == pytest.approx(sum(kappas) / len(kappas))
    assert measured(found, "within/0") is None
    truth = (
        load_config("kmeans", [*SAMPLE_PROBES_COMMON, "method.n_clusters=10", "scenario.heterogeneity=0.5"])
        .scenario.build(0)
        .truth
    )
    assert truth is not None
    counts = sorted((truth[4] == label).sum().item() for label in range(10))
    assert measured(found, "imbalance/5") == pytest.approx(counts[-1] / counts[0])
