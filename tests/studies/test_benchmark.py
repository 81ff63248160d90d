"""A benchmark appends its results, goes on where it stopped, and says what failed."""

import json
from pathlib import Path
from typing import Any

import pytest

from comparing import Here
from fedkin.core import FedkinError
from fedkin.studies.benchmark import (
    CLIENTS,
    PAGE,
    SAMPLES,
    BenchmarkOptions,
    Conditions,
    as_text,
    benchmarked,
    cells_of,
    scores_of,
    variants_of,
)
from fedkin.studies.study import RESULTS, Cell, Study

QUICK: dict[str, Any] = {"methods": ("fedavg", "ifca"), "scenarios": ("label-clusters",), "seeds": 1, "rounds": 1}


def test_results_are_appended_and_count_the_next_time(tmp_path: Path):
    worker = Here()
    first = benchmarked(BenchmarkOptions("clients", **QUICK), tmp_path, worker)
    assert {(cell.method, cell.scenario): one.clusters for cell, one in first.items()} == {
        ("ifca", "label-clusters"): 3,
        ("fedavg", "label-clusters"): 1,
    }
    for one in first.values():
        assert 0 <= one.metrics["personal_accuracy"] <= 1
        assert one.bytes > 0
        assert one.steps == 1
    again = Here()
    more = benchmarked(BenchmarkOptions("clients", **{**QUICK, "methods": ("fedavg", "local")}), tmp_path, again)
    assert again.made == ["local 0"]
    assert {cell.method for cell in more} == {"fedavg", "local"}
    assert len((tmp_path / RESULTS).read_text().splitlines()) == 3
    page = (tmp_path / PAGE).read_text()
    assert "Nemenyi" not in page  # one scenario tells nothing
    assert "label-clusters" in page
    assert "fedavg" in as_text("clients", ["label-clusters"], more)


def test_a_slow_run_is_tried_again_with_a_longer_limit_only(tmp_path: Path):
    options = {**QUICK, "methods": ("fedavg",)}
    (given_up,) = benchmarked(
        BenchmarkOptions("clients", **options, limit="5s"), tmp_path, Here(slow=("fedavg",))
    ).values()
    assert given_up.failed == "it took more than 5 seconds"
    same = Here()
    benchmarked(BenchmarkOptions("clients", **options, limit="5s"), tmp_path, same)
    assert same.made == []
    (done,) = benchmarked(BenchmarkOptions("clients", **options, limit="6s"), tmp_path, Here()).values()
    assert not done.failed


def test_a_failure_is_a_result_with_its_reason(tmp_path: Path):
    found = benchmarked(BenchmarkOptions("clients", **QUICK), tmp_path, Here(broken=("fedavg", "ifca")))
    assert [one.failed for one in found.values()] == ["no such luck."] * 2
    assert scores_of(found, "clients") == {}
    assert "no such luck" in (tmp_path / PAGE).read_text()
    printed = as_text("clients", ["label-clusters"], found).splitlines()
    assert printed[-2:] == [
        "Without a result; with a longer --limit, what took too long is tried again:",
        "  fedavg, ifca, label-clusters: no such luck.",
    ]


@pytest.mark.parametrize("family", ["clients", "samples"])
def test_every_scenario_has_a_valid_experiment(family):
    table = CLIENTS if family == "clients" else SAMPLES
    methods = ("ifca", "pacfl", "ladd") if family == "clients" else ("kfed", "kin-graph")
    conditions = Conditions(family, "digits", 10, {"rounds": 2, "module": "perceptron"})
    for cell in cells_of(list(table), methods, 1):
        config = conditions.config(cell)
        assert config.tables["scenario"]["name"] == table[cell.scenario].settings["name"]
        unknown = {"ladd": "none", "kin-graph": "auto"}.get(cell.method)
        given = unknown or (None if cell.method == "pacfl" else conditions.clusters(cell.scenario))
        assert config.tables["method"].get("n_clusters") == given
        assert config.tables["scenario"].get("step", 2) == 2  # changes come in the middle of two rounds


def test_a_method_takes_part_with_settings_of_its_own():
    names = ("kin-graph", "ccfc+decorrelation=1", "ccfc", "ccfc+decorrelation=1")
    found = variants_of("samples", names)
    assert found == ["kin-graph", "ccfc+decorrelation=1", "ccfc"]
    conditions = Conditions("samples", "digits", 10, {"rounds": 2})
    config = conditions.config(Cell(found[1], 0, scenario="label-skew"))
    assert config.tables["method"]["name"] == "ccfc"
    assert config.tables["method"]["decorrelation"] == 1.0
    assert conditions.given(Cell(found[1], 0, scenario="label-skew")) == 10
    assert variants_of("samples", ("all",))[0] == "kfed"
    with pytest.raises(FedkinError, match=r"write \+OPTION=VALUE"):
        variants_of("samples", ("ccfc+decorrelation",))
    with pytest.raises(FedkinError, match="decorelation"):
        conditions.config(Cell("ccfc+decorelation=1", 0, scenario="label-skew"))


def test_a_damaged_line_is_named(tmp_path: Path):
    benchmarked(BenchmarkOptions("clients", **QUICK), tmp_path, Here(broken=("fedavg", "ifca")))
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
