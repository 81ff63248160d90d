"""Comparisons whose budget ends before their runs do."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from comparing import WORKER, Watch
from fedkin.core import FedkinError
from fedkin.core.progress import Progress
from fedkin.experiment import registry
from fedkin.experiment.config import Config
from fedkin.studies import time_budget
from fedkin.studies.compare import Options, question_of
from fedkin.studies.compare import compared as compared_with
from fedkin.studies.run_pool import RunWorker

pytestmark = pytest.mark.usefixtures("one_worker")


@pytest.fixture
def comparable_toy(toy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.METHODS, "toy", registry.RegistryEntry("toy:Comparable", "A federated mean."))


class Timed(RunWorker):
    """Makes runs that fit into their time, by a clock that goes only as far as each method is said to take.

    Parameters
    ----------
    costs : dict
        Seconds by method.
    monkeypatch : MonkeyPatch
        To have the budget look at the clock.
    """

    def __init__(self, costs: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.costs, self.now, self.given = costs, 0.0, []
        monkeypatch.setattr(time_budget, "time", SimpleNamespace(monotonic=lambda: self.now))

    def run(self, config: Config, folder: Path, seconds: float, most: float, progress: Progress) -> bool:
        assert seconds <= most
        self.given.append((config.method_name, seconds))
        cost = self.costs[config.method_name]
        self.now += min(cost, seconds)
        return cost <= seconds and WORKER.run(config, folder, 300, 300, progress)


def test_each_run_has_its_share_of_the_budget(
    tmp_path: Path, comparable_toy: None, hospitals: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = ("toy", "kmeans")
    question = question_of(hospitals, methods=methods, settings=["engine.workers=1"])
    worker = Timed({"kmeans": 3, "toy": 1000}, monkeypatch)
    options, watch = Options(methods, clusters=3, seeds=2, budget="110s"), Watch()  # ten are kept for scores
    comparison = compared_with(question, options, tmp_path / "out", watch, worker)
    lines = {line.method: line for line in comparison.lines}
    assert watch.names == ["kmeans-3 0", "toy 0", "kmeans-3 1"]
    shares = [seconds for _, seconds in worker.given]
    assert shares[0] == pytest.approx(100 / 2)
    assert shares[1] == pytest.approx(97 - 3)  # what the other's second run will take is kept for it
    assert shares[2] == pytest.approx(3)
    assert lines["kmeans"].runs == 2
    assert lines["toy"].runs == 0
    assert lines["toy"].remark == "not finished in the budget, stopped after 0 steps"
    assert lines["toy"].measures == {}
    assert comparison.lines[-1].method == "toy"
    assert comparison.recommended is None  # a centralised baseline is none to take
    assert "no method that finished may be recommended" in comparison.reason


def test_a_method_that_never_had_a_turn_had_no_time(
    tmp_path: Path, comparable_toy: None, hospitals: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = ("toy", "kmeans")
    question = question_of(hospitals, methods=methods, settings=["engine.workers=1"])
    worker, watch = Timed({"kmeans": 2, "toy": 1}, monkeypatch), Watch()
    options = Options(methods, clusters=3, seeds=1, budget="3s")
    comparison = compared_with(question, options, tmp_path / "out", watch, worker)
    assert watch.names == ["kmeans-3 0"]
    assert {line.method: line.remark for line in comparison.lines}["toy"] == "not started in the budget"


def test_a_method_that_alone_had_a_turn_is_recommended_without_confidence(
    tmp_path: Path, comparable_toy: None, hospitals: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = ("toy", "kfed")
    question = question_of(hospitals, methods=methods, settings=["engine.workers=1"])
    worker, options = Timed({"kfed": 2, "toy": 1}, monkeypatch), Options(methods, clusters=3, seeds=1, budget="3s")
    comparison = compared_with(question, options, tmp_path / "out", Watch(), worker)
    assert (comparison.recommended, comparison.better_than_chance, comparison.confident) == ("kfed", True, False)
    assert comparison.warnings == (
        "Only kfed finished, so it was compared with nothing; the same with a larger budget resumes.",
    )


def test_what_does_not_fit_into_one_budget_is_resumed_in_the_next(
    tmp_path: Path, comparable_toy: None, hospitals: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = question_of(hospitals, methods=("toy",), settings=["engine.workers=1"])
    worker = Timed({"toy": 60}, monkeypatch)
    with pytest.raises(
        FedkinError, match=r"No run finished in the budget of 30s; the same with a larger budget resumes"
    ):
        compared_with(question, Options(("toy",), seeds=2, budget="30s"), tmp_path / "out", Watch(), worker)
    options = Options(("toy",), seeds=2, budget="100s")
    (line,) = compared_with(question, options, tmp_path / "out", Watch(), worker).lines
    assert (line.runs, line.remark, line.truth) == (1, "", {})
    (line,) = compared_with(question, options, tmp_path / "out", Watch(), worker).lines
    assert (line.runs, line.remark) == (2, "")


def test_what_was_stopped_goes_on_when_all_had_a_turn(
    tmp_path: Path, comparable_toy: None, hospitals: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = ("kmeans", "kfed", "toy")
    question = question_of(hospitals, methods=methods, settings=["engine.workers=1"])
    worker = Timed({"kfed": 40, "kmeans": 3, "toy": 1}, monkeypatch)
    options, watch = Options(methods, clusters=3, seeds=1, budget="100s"), Watch()  # ten are kept for scores
    comparison = compared_with(question, options, tmp_path / "out", watch, worker)
    assert watch.names == ["kfed-3 0", "kmeans-3 0", "toy 0", "kfed-3 0"]
    assert [seconds for _, seconds in worker.given] == pytest.approx([30, 20, 57 / 2, 56])
    assert {line.method: line.runs for line in comparison.lines} == {"kfed": 1, "kmeans": 1, "toy": 1}


def test_every_cheap_method_has_its_first_run_before_the_ladder_of_numbers(
    tmp_path: Path, hospitals: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = ("kfed", "kmeans", "kin-graph")
    question = question_of(hospitals, methods=methods, settings=["engine.workers=1"])
    worker, watch = Timed(dict.fromkeys(methods, 1), monkeypatch), Watch()
    compared_with(question, Options(methods, seeds=1, budget="7s"), tmp_path / "out", watch, worker)
    assert watch.names == ["kin-graph 0", "kfed-3 0", "kmeans-3 0", "kfed-2 0", "kfed-4 0"]
    worker, watch = Timed(dict.fromkeys(methods, 1), monkeypatch), Watch()
    options = Options(("kfed", "kmeans"), seeds=1, budget="4s")
    compared_with(question, options, tmp_path / "none", watch, worker)
    assert watch.names == ["kfed-2 0", "kmeans-2 0"]  # where none finds a number
