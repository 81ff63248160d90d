"""What is measured on runs that cluster clients, beside what their records say."""

from pathlib import Path

import pytest

from fedkin.core import FedkinError
from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute
from fedkin.studies.reproduce.measures import FinishedRun, measured

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


def test_accuracy_counts_rounds_of_training_only(embedded: FinishedRun) -> None:
    scores = embedded.values("personal_accuracy")  # steps: pre-training, messages, then rounds 1 to 3
    assert [score is not None for score in scores] == [False, True, False, True, True]
    assert measured(embedded, "trained/1") is None
    assert measured(embedded, "trained/2") == scores[3]
    assert measured(embedded, "trained/3") == scores[4]


def test_clusters_are_right_without_flips_and_gone_with_nothing_else(embedded: FinishedRun) -> None:
    for way in ("exact", "given"):
        assert measured(embedded, f"flips/{way}@0") == 1
        assert measured(embedded, f"flips/{way}-clusters@0") == 2
    assert measured(embedded, "flips/exact@0.5") == pytest.approx(0, abs=0.1)
    assert measured(embedded, "flips/bayes-clusters@0.05") is not None
    assert measured(embedded, "flips/exact@0.07") is None
