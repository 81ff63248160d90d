"""What leaves a client: from what tasks declare and a federation has counted, for every method alike."""

import json
from pathlib import Path

import pytest

from fedkin.core import FedkinError
from fedkin.core.tasks import _TASKS
from fedkin.experiment import registry
from fedkin.experiment.config import load_config
from fedkin.experiment.disclosure import disclosure_of_run
from fedkin.experiment.run import execute, resume
from fedkin.experiment.run_folder import MESSAGES
from fedkin.report.figures import PagePart, ResultTable
from toy_runs import files, run


def left(folder: Path, method: str, *settings: str) -> PagePart:
    """Return what leaves clients in a small run."""
    small = ["simulation.fraction=0.3", "evaluation.map=none", *settings]
    return disclosure_of_run(execute(load_config(method, small), folder / f"{method}{len(settings)}").folder)


def by_task(leaving: PagePart) -> dict[str, list[str]]:
    """Return how often a task was done, how few rows are behind a number, and the largest reply."""
    (table,) = leaving.figures
    assert isinstance(table, ResultTable)
    cells = {str(what): [str(cell.text) for cell in row] for what, row in table.rows}
    sent = {name: task.sends or name for name, task in _TASKS.items()}
    return {name.rpartition(".")[2]: cells[what] for name, what in sent.items() if what in cells}


def test_every_task_of_every_method_says_what_it_sends() -> None:
    for name in registry.METHODS:
        registry.resolve("method", name)
    for name, task in _TASKS.items():
        if name.startswith("fedkin.") and (task.holds or "hidden" in name):
            assert task.sends[0].isupper(), name
            assert not set("`*.") & set(task.sends), name


def test_groups_limits_and_extremes_are_those_of_the_tasks(tmp_path: Path) -> None:
    leaving = left(tmp_path, "kfed")
    messages = by_task(leaving)
    assert messages["cluster_locally"][:2] == ["once", "not limited"]
    assert messages["moments"][1].startswith("a single row")
    assert messages["describe"][1] == "nothing of any row"
    assert any("needs the message of each client" in sentence for sentence in leaving.paragraphs)
    other = by_task(left(tmp_path, "afcl", "method.members=7"))
    assert other["propose_seeds"][1] == "at least 7"


def test_secure_sums_and_noise_are_told_of_as_they_are_set(tmp_path: Path) -> None:
    hidden = left(tmp_path, "kin-graph", "federation.secure_sums=true", "data.scaling=standard")
    assert by_task(hidden)["send_cell_moments"][1] == "all of 3 clients or more: only sums are seen"
    assert any("Secure sums are on" in sentence for sentence in hidden.paragraphs)
    noisy = left(tmp_path, "kin-graph", "method.epsilon=4.0", "data.scaling=none", "seed=1")
    assert by_task(noisy)["send_noisy_sums"][1] == "hidden by noise"
    assert any("epsilon of 4" in sentence for sentence in noisy.paragraphs)


@pytest.mark.usefixtures("toy")
def test_a_run_tells_of_what_was_sent_also_resumed_and_by_a_method_of_ones_own(tmp_path: Path) -> None:
    run(tmp_path / "a")
    before = files(tmp_path / "a")
    assert json.loads(before[MESSAGES])["toy.walk"]["exchanges"] == 5
    leaving = disclosure_of_run(tmp_path / "a")
    assert by_task(leaving)["walk"][0] == "in each round, of 4 at most"
    assert b'id="disclosure"' in before["report.html"]
    resume(tmp_path / "a")
    assert files(tmp_path / "a") == before
    (tmp_path / "a" / MESSAGES).write_text("[1]")
    with pytest.raises(FedkinError):
        disclosure_of_run(tmp_path / "a")
