from pathlib import Path

from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute, resume


def test_clients_know_their_clusters_where_a_target_ends_a_run_early(tmp_path: Path) -> None:
    target = ["target.metric=nmi", "target.reach=0.01", "target.stop=true"]
    outcome = execute(
        load_config("ffcm", [*target, "method.rounds=5", "scenario.fraction=0.2", "evaluation.map=pca"]),
        tmp_path / "run",
    )
    assert outcome.state.steps == 1
    assert len(list((tmp_path / "run" / "labels").iterdir())) == 10


def test_clients_that_never_take_part_are_scored_and_get_no_file(tmp_path: Path) -> None:
    outcome = execute(
        load_config("kfed", ["engine.absent=0.3", "scenario.fraction=0.2", "evaluation.map=pca"]), tmp_path / "run"
    )
    assert len(list((tmp_path / "run" / "labels").iterdir())) == 7
    assert len(outcome.records[-1]["answered"]) == 7
    assert len(outcome.records[-1]["metrics"]["kappas"]) == 10
    again = resume(tmp_path / "run")
    assert again.records == outcome.records
