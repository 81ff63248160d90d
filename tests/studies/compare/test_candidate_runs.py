from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedkin.core import FedkinError
from fedkin.experiment.config import load_config
from fedkin.experiment.run import execute
from fedkin.studies.compare.candidate_runs import outcome, steps_of


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    settings = ["data.source=wine", "method.n_clusters=3", "evaluation.map=none"]
    return execute(load_config("kfed", settings), tmp_path / "run").folder


def sizes(run: Path) -> list[int]:
    return [len((run / "labels" / f"client-{i}.csv").read_text().splitlines()) - 1 for i in range(3)]


def test_a_finished_run_is_read_and_clients_without_a_file_have_no_clusters(finished: Path) -> None:
    held = sizes(finished)
    found = outcome(finished, held)
    assert (len(found.labels), found.clusters, steps_of(finished)) == (178, 3, 1)
    assert found.bytes > 0
    (finished / "labels" / "client-2.csv").unlink()
    assert outcome(finished, held).labels[-held[2] :].tolist() == [-1] * held[2]
    assert steps_of(finished / "nowhere") == 0


@pytest.mark.parametrize(
    "spoil",
    [
        lambda run: (run / "records.jsonl").unlink(),
        lambda run: (run / "records.jsonl").write_text(""),
        lambda run: (run / "records.jsonl").write_text("{\n"),
        lambda run: (run / "labels" / "client-0.csv").write_text("row,cluster\n0,1\n"),
        lambda run: (run / "labels" / "client-0.csv").write_text("row,class\n0,1\n"),
        lambda run: (run / "labels" / "client-0.csv").write_text("row,cluster\n0,one\n"),
    ],
    ids=["no records", "empty records", "broken records", "too few rows", "no clusters", "no numbers"],
)
def test_a_run_that_cannot_be_read_is_reported(spoil: Callable[[Path], Any], finished: Path) -> None:
    held = sizes(finished)
    spoil(finished)
    with pytest.raises(
        FedkinError, match=r"^The run in .*run cannot be read \(.*\); remove the folder to make it again"
    ):
        outcome(finished, held)
