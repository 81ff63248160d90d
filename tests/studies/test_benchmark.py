"""A benchmark appends its results, goes on where it stopped, and says what failed."""

import json
from pathlib import Path
from typing import Any

import pytest

from comparing import Here
from fedkin.core import FedkinError
from fedkin.studies.benchmark import SCENARIOS, questions_of
from fedkin.studies.compare import Options, benchmarked
from fedkin.studies.comparison import BENCHMARK_PAGE as PAGE
from fedkin.studies.comparison import Benchmark
from fedkin.studies.question import Candidate, methods_of
from fedkin.studies.study import RESULTS, Study

ROUND = {"scenarios": ("label-clusters",), "rounds": 1, "shows": False}


def of_clients(
    out: Path, worker: Here, *methods: str, limit: str = "10m", budget: float = 600.0, **more: Any
) -> Benchmark:
    options = Options(seeds=1, budget=budget, limit=limit)
    return benchmarked("clients", methods or ("fedavg", "ifca"), options, out, worker=worker, **{**ROUND, **more})


def test_results_are_appended_and_count_the_next_time(tmp_path: Path) -> None:
    benchmark = of_clients(tmp_path, Here())
    rows = {row.method: row for row in benchmark.rows["label-clusters"]}
    assert {name: row.clusters for name, row in rows.items()} == {"ifca": (3,), "fedavg": (1,)}
    for row in rows.values():
        assert 0 <= row.measures["accuracy"] <= 1
        assert row.bytes
        assert len(row.results) == 1
    again = Here()
    more = of_clients(tmp_path, again, "fedavg", "local")
    assert again.made == ["local 0"]
    assert {cell.method for cell in more.results} == {"fedavg", "local"}
    assert len((tmp_path / RESULTS).read_text().splitlines()) == 3
    page = (tmp_path / PAGE).read_text()
    assert "Nemenyi" not in page  # one scenario tells nothing
    assert "label-clusters" in page
    assert "fedavg" in more.text()


def test_samples_are_ranked_over_scenarios_and_seeds_with_partitions_of_their_own(tmp_path: Path) -> None:
    scenarios = ("label-skew", "few-samples")
    options = Options(seeds=2, limit="10m")
    methods, worker = ("kfed", "kmeans"), Here()
    benchmark = benchmarked("samples", methods, options, tmp_path, scenarios=scenarios, worker=worker, shows=False)
    assert [(len(row.results), set(row.deviations) >= {"ari"}) for rows in benchmark.rows.values() for row in rows] == [
        (2, True)
    ] * 4
    assert benchmark.ranking.ranks == {"kmeans": 1.0, "kfed": 2.0}
    assert [benchmark.best(name)[0] for name in scenarios] == ["kmeans"] * 2
    assert "Nemenyi" in (tmp_path / PAGE).read_text()
    runs = [run for run in benchmark.plain() if run["method"] == "kfed" and run["scenario"] == "label-skew"]
    kfed = benchmark.rows["label-skew"][0]
    assert kfed.measures["ari"] == pytest.approx(sum(run["metrics"]["ari"] for run in runs) / 2)


def test_a_slow_run_is_tried_again_with_a_longer_limit_only(tmp_path: Path) -> None:
    (given_up,) = of_clients(tmp_path, Here(slow=("fedavg",)), "fedavg", limit="5s").results.values()
    assert given_up.failed == "it took more than 5 seconds"
    same = Here()
    of_clients(tmp_path, same, "fedavg", limit="5s")
    assert same.made == []
    assert of_clients(tmp_path, Here(slow=("fedavg",)), "fedavg", limit="6s", budget=5.5).results == {}  # cut off
    (done,) = of_clients(tmp_path, Here(), "fedavg", limit="6s").results.values()
    assert not done.failed


def test_a_failure_is_a_result_with_its_reason(tmp_path: Path) -> None:
    benchmark = of_clients(tmp_path, Here(broken=("fedavg", "ifca")))
    assert [one.failed for one in benchmark.results.values()] == ["no such luck."] * 2
    assert benchmark.ranking.ranks == {}
    assert "no such luck" in (tmp_path / PAGE).read_text()
    assert "  ifca, label-clusters: cannot be applied: no such luck" in benchmark.text().splitlines()


@pytest.mark.parametrize("family", ["clients", "samples"])
def test_every_scenario_has_a_valid_experiment(family: Any) -> None:
    methods = ("ifca", "pacfl", "ladd") if family == "clients" else ("kfed", "kin-graph")
    shared = {"rounds": 2, "module": "perceptron"} if family == "clients" else {}
    for name, (question, number) in questions_of(family, methods, "digits", list(SCENARIOS[family]), shared).items():
        for candidate in question.candidates(number, needy_only=True):
            config = question.config(candidate, 0)
            assert config.simulation.scenario == SCENARIOS[family][name].settings["scenario"]
            unknown = {"ladd": "none", "kin-graph": "auto"}.get(candidate.method)
            given = unknown or (None if candidate.method == "pacfl" else number)
            assert config.tables["method"].get("n_clusters") == given
            assert config.tables["simulation"].get("step", 2) == 2  # changes come in the middle of two rounds


def test_a_method_takes_part_with_settings_of_its_own() -> None:
    names = ("kin-graph", "ccfc+decorrelation=1", "ccfc", "ccfc+decorrelation=1")
    assert methods_of("samples", names) == ("kin-graph", "ccfc+decorrelation=1", "ccfc")
    assert methods_of("samples", ("all",))[0] == "kfed"
    question, number = questions_of("samples", names[1:2], "digits", ["label-skew"], {})["label-skew"]
    (candidate,) = question.candidates(number, needy_only=True)
    method = question.config(candidate, 0).tables["method"]
    assert (method["name"], method["decorrelation"], method["n_clusters"]) == ("ccfc", 1.0, 10)
    for wrong in ("ccfc+decorrelation", "ccfc+decorelation=1"):
        with pytest.raises(FedkinError):
            question.config(Candidate(wrong, 10), 0)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    of_clients(tmp_path, Here(broken=("fedavg", "ifca")))
    plan = json.loads((tmp_path / "plan.json").read_text())
    with (tmp_path / RESULTS).open("a") as file:
        file.write('{"seed": 1, "scen')
    with Study(tmp_path, plan, "benchmark", Here()) as study:
        assert len(study.results) == 2  # killed while it wrote
    assert (tmp_path / RESULTS).read_text().endswith("}\n")
    with (tmp_path / RESULTS).open("a") as file:
        file.write('{"seed": 1}\n')
    with pytest.raises(FedkinError, match="cannot be read"), Study(tmp_path, plan, "benchmark", Here()):
        pass
