"""What leaves a client: from what tasks declare and a federation has counted, for every method alike."""

import json
from pathlib import Path

import pytest

from fedkin.core import FedkinError
from fedkin.core.tasks import _TASKS
from fedkin.experiment import registry
from fedkin.experiment.disclosure import Disclosure, disclosure_of_run, rehearsed
from fedkin.experiment.run import resume
from fedkin.experiment.run_folder import MESSAGES
from toy_runs import files, run


def by_task(leaving: Disclosure) -> dict[str, tuple[str, str, bool]]:
    return {each.task.rpartition(".")[2]: (each.often, each.smallest, each.summed) for each in leaving.messages}


def test_every_task_of_every_method_says_what_it_sends() -> None:
    for name in registry.METHODS:
        registry.resolve("method", name)
    for name, task in _TASKS.items():
        if name.startswith("fedkin.") and (task.holds or "hidden" in name):
            assert task.sends[0].isupper(), name
            assert not set("`*.") & set(task.sends), name


def test_groups_limits_and_extremes_are_those_of_the_tasks() -> None:
    leaving = rehearsed("kfed", [])
    messages = by_task(leaving)
    assert messages["cluster_locally"] == ("once", "not limited", False)
    assert messages["moments"][1].startswith("a single row")
    assert messages["describe"][1] == "nothing of any row"
    assert any("needs the message of each client" in sentence for sentence in leaving.notes)
    other = by_task(rehearsed("afcl", ["method.members=7"]))
    assert other["propose_seeds"][1] == "at least 7"


def test_secure_sums_and_noise_are_told_of_as_they_are_set() -> None:
    hidden = rehearsed("kin-graph", ["federation.secure_sums=true", "data.scaling=standard"])
    assert by_task(hidden)["send_cell_moments"][1:] == ("all of 3 clients or more: only sums are seen", True)
    assert any("Secure sums are on" in sentence for sentence in hidden.notes)
    noisy = rehearsed("kin-graph", ["method.epsilon=4.0"])
    assert by_task(noisy)["send_noisy_sums"][1] == "hidden by noise"
    assert any("epsilon of 4" in sentence for sentence in noisy.notes)
    assert any("flipped with a probability of 10%" in note for note in rehearsed("embedding", []).notes)


@pytest.mark.parametrize(("method", "task"), [("kin-graph", "send_summary"), ("ifca", "choose_and_train")])
def test_a_real_federations_experiment_is_tried_on_made_up_rows(method: str, task: str) -> None:
    leaving = rehearsed(method, ["data.source=federation"])
    assert "made up" in leaving.lead
    assert task in by_task(leaving)


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
