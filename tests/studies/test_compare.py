"""Comparisons from the question to the page: what is tried, written and resumed, recommended and doubted."""

import csv
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin
from fedkin.core import FedkinError
from fedkin.core.files import folder_lock
from fedkin.core.runner import Progress
from fedkin.studies import study
from fedkin.studies.benchmark import SCENARIOS, questions_of
from fedkin.studies.cells import CellResult, run_cell
from fedkin.studies.compare import compared, parsed_duration
from fedkin.studies.comparison import Comparison
from fedkin.studies.question import Candidate, Question, question_of
from fedkin.studies.study import RESULTS, Study
from shell import fedkin as command
from site_files import sites

CHEAP = ("kfed", "kmeans", "kin-graph")
RNG = np.random.default_rng(0)
TRUTH = [RNG.integers(0, 2, 40) for _ in range(2)]
SITES = [RNG.normal(size=(40, 2)) + 9 * y[:, None] for y in TRUTH]
OPTIONS: dict[str, Any] = {
    "methods": ["kfed", "kmeans"], "n_clusters": 2, "budget": "1h", "seeds": 2, "settings": ["device.workers=1"]
}  # fmt: skip
Runs = list[str]


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    """Runs as they are made, such as ``"kfed-2 0"``; a method called in ``broken`` fails."""
    cells: Runs = []

    def run(config: Any, *arguments: Any) -> CellResult:
        number = config.tables["method"].get("n_clusters")
        given = f"-{number}" if isinstance(number, int) else ""
        cells.append(f"{config.method_name}{given} {config.seed}")
        return run_cell(config, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "run_cell", run)
        yield cells


@pytest.fixture
def new(runs: Runs) -> Callable[[], Runs]:
    """Returns the runs since the last call."""
    runs.clear()

    def since() -> Runs:
        cells = [*runs]
        runs.clear()
        return cells

    return since


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> str:
    return sites(tmp_path_factory.mktemp("data") / "hospitals", clusters=3, count=3, samples=60)


def cheap(hospitals: str, **more: Any) -> Question:
    return question_of(hospitals, methods=CHEAP, settings=["device.workers=1"], **more)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, hospitals: str, runs: Runs) -> tuple[Comparison, Runs]:
    out = tmp_path_factory.mktemp("comparisons") / "first"
    runs.clear()
    return compared([cheap(hospitals)], out, 2, "1h"), [*runs]


def test_the_number_of_clusters_is_found_and_reported(first: tuple[Comparison, Runs]) -> None:
    comparison, cells = first
    lines = {line.method: line for line in comparison.lines}
    assert set(lines) == set(CHEAP)
    assert lines["kin-graph"].clusters == (3, 3)
    assert lines["kin-graph"].measures["found_again"] > 0.8
    assert all(line.measures["ari"] > 0.85 for line in lines.values())
    assert comparison.recommended in ("kfed", "kin-graph")
    assert comparison.confident
    assert comparison.better_than_chance
    assert lines["kmeans"].role == "centralised"
    assert cells[0] == "kin-graph 0"
    seeds = [cell[-1] for cell in cells]
    assert seeds == sorted(seeds)  # one seed of all before the second of any
    assert seeds.count("1") == 3


def test_everything_is_on_disk_and_nothing_is_made_again(
    first: tuple[Comparison, Runs], hospitals: str, new: Callable[[], Runs]
) -> None:
    comparison, _ = first
    with (comparison.out / "comparison.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == [line.method for line in comparison.lines]
    assert [row["method"] for row in rows if row["recommended"] == "True"] == [comparison.recommended]
    assert list(comparison.table["method"]) == [row["method"] for row in rows]
    page = (comparison.out / "report.html").read_text()
    assert f"Recommended: <code>{comparison.recommended}</code>. It " in page
    assert all(name in page for name in CHEAP)
    same = compared([cheap(hospitals)], comparison.out, 2, "1h")
    assert new() == []
    assert same.rows() == comparison.rows()
    more = compared([cheap(hospitals)], comparison.out, 3, "1h")
    assert {cell[-1] for cell in new()} == {"2"}
    assert {len(line.results) for line in more.lines} == {3}


def test_the_command_it_recommends_does_what_was_compared(
    first: tuple[Comparison, Runs], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = first[0].use[0].split()
    assert command(*words[1:]) == 0
    labels = sorted((Path(words[words.index("--out") + 1]) / "labels").iterdir())
    assert len({line.split(",")[1] for path in labels for line in path.read_text().splitlines()[1:]}) == 3


def test_a_folder_of_something_else_is_left_alone(
    tmp_path: Path, first: tuple[Comparison, Runs], hospitals: str
) -> None:
    (tmp_path / "letter.txt").write_text("Dear")
    blobs = question_of("blobs", methods=["kfed"])
    for folder in (tmp_path, tmp_path / "letter.txt"):
        with pytest.raises(FedkinError):
            compared([blobs], folder)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
    with pytest.raises(FedkinError, match="its seed is 0, not 1"):
        compared([cheap(hospitals, seed=1)], first[0].out)
    with folder_lock(tmp_path / "out"), pytest.raises(FedkinError):
        compared([blobs], tmp_path / "out")


def test_the_command_prints_a_table_or_json(
    first: tuple[Comparison, Runs], hospitals: str, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison, _ = first
    words = ["compare", hospitals, "--methods", ",".join(CHEAP), "--seeds", "2", "--set", "device.workers=1"]
    assert command(*words, "--budget", "1h", "--out", str(comparison.out)) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"Recommended: {comparison.recommended}. It ")
    assert "Which samples belong together? " in text
    (head,) = [line.split() for line in text.splitlines() if line.startswith("Method")]
    assert head == ["Method", "Clusters", "Found", "again", "Stability", "ARI", "NMI", "ACC", "Moved", "Time", "Runs"]
    assert "  fedkin run " in text
    assert text.splitlines()[-1] == f"Report: {comparison.out / 'report.html'}"
    assert command(*words, "--budget", "1h", "--out", str(comparison.out), "--json") == 0
    assert json.loads(capsys.readouterr().out)["recommended"] == comparison.recommended
    assert command("compare", hospitals, "--methods", "kfedd") == 2


def test_clients_in_memory_are_compared_as_files_are(tmp_path: Path, new: Callable[[], Runs]) -> None:
    comparison = fedkin.compare(SITES, TRUTH, out=tmp_path, **OPTIONS)
    assert comparison.recommended == "kfed"
    assert comparison.table.loc[comparison.table["recommended"], "ari"].tolist() == [1.0]
    assert comparison.use == ("fedkin.KFed(n_clusters=2).fit(clients)",)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"plan.json", "results.jsonl", "comparison.json", "comparison.csv", "report.html"}
    new()
    repeated = fedkin.compare([x.tolist() for x in SITES], TRUTH, out=tmp_path, **OPTIONS)
    assert repeated.rows() == comparison.rows()
    assert new() == []
    for x, y in (([x + 1 for x in SITES], TRUTH), (SITES, None), (SITES[:1] * 2, TRUTH[:1] * 2)):
        with pytest.raises(FedkinError, match="holds another comparison"):
            fedkin.compare(x, y, out=tmp_path, **OPTIONS)


def test_data_without_structure_are_recommended_nothing_with_confidence(tmp_path: Path) -> None:
    noise = [pd.DataFrame(RNG.normal(size=(60, 5))) for _ in range(2)]
    comparison = fedkin.compare(noise, out=tmp_path, **OPTIONS)
    assert (comparison.confident, comparison.better_than_chance) == (False, False)
    assert comparison.lead.startswith("Recommended, but without confidence: `kfed`. ")
    page, text = (tmp_path / "report.html").read_text(), " ".join(comparison.text().split())
    assert all(warning in page and warning in text for warning in comparison.warnings)


def test_a_method_is_compared_with_options_of_its_own_and_called_with_them(tmp_path: Path) -> None:
    options = {**OPTIONS, "methods": "kfed+max_iter=1", "seeds": 1}
    comparison = fedkin.compare(SITES, TRUTH, out=tmp_path, **options)
    assert comparison.recommended == "kfed+max_iter=1"
    assert comparison.use == ("fedkin.KFed(n_clusters=2, max_iter=1).fit(clients)",)
    assert comparison.confident


def test_no_run_begins_after_the_budget_and_one_at_work_is_given_up(
    tmp_path: Path, hospitals: str, new: Callable[[], Runs], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 1.0, *[99.0] * 1000])  # when the study begins, before its first run, and in it
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with pytest.raises(FedkinError, match="not reached in the budget"):
        compared([cheap(hospitals)], tmp_path, 1, 10)
    assert new() == ["kin-graph 0"]
    assert not (tmp_path / RESULTS).exists()
    monkeypatch.undo()
    assert compared([cheap(hospitals)], tmp_path, 1).recommended


def test_budgets_are_durations() -> None:
    assert [parsed_duration(text) for text in ("90s", "1h30m", 2)] == [90, 5400, 2]
    for text in ("", "0s", "10", "m", -1, True, float("inf")):
        with pytest.raises(FedkinError):
            parsed_duration(text)


# Benchmarks.


def of_clients(out: Path, *methods: str) -> Comparison:
    return compared(questions_of("clients", methods, scenarios=("label-clusters",), rounds=1), out, 1)


def test_results_are_appended_and_count_the_next_time(tmp_path: Path, new: Callable[[], Runs]) -> None:
    benchmark = of_clients(tmp_path, "fedavg", "ifca")
    rows = {row.method: row for row in benchmark.scenarios["label-clusters"]}
    assert {name: row.clusters for name, row in rows.items()} == {"ifca": (3,), "fedavg": (1,)}
    assert all(0 <= row.measures["accuracy"] <= 1 and row.bytes for row in rows.values())
    assert benchmark.recommended is None
    new()
    more = of_clients(tmp_path, "fedavg", "local")
    assert new() == ["local 0"]
    assert {line.method for line in more.lines} == {"fedavg", "local"}
    assert len((tmp_path / RESULTS).read_text().splitlines()) == 3
    page = (tmp_path / "report.html").read_text()
    assert "Nemenyi" not in page  # one scenario tells nothing
    assert "label-clusters" in page
    assert "fedavg" in more.text()


def test_samples_are_ranked_over_scenarios_and_seeds_with_partitions_of_their_own(
    tmp_path: Path, new: Callable[[], Runs]
) -> None:
    scenarios = ("label-skew", "few-samples")
    benchmark = compared(questions_of("samples", ("kfed", "kmeans"), scenarios=scenarios), tmp_path, 2)
    assert all(len(row.results) == 2 and "ari" in row.deviations for row in benchmark.lines)
    assert all("stability" not in row.measures for row in benchmark.lines)
    assert benchmark.ranking.ranks == {"kmeans": 1.0, "kfed": 2.0}
    assert "Nemenyi" in (tmp_path / "report.html").read_text()
    assert benchmark.table["scenario"].tolist() == ["label-skew"] * 2 + ["few-samples"] * 2
    new()
    more = compared(questions_of("samples", ("kfed",), scenarios=("label-skew", "own-class p=1")), tmp_path, 2)
    assert (new(), len(more.lines)) == (["kfed-10 0", "kfed-10 1"], 2)  # another scenario joins those that are there
    with pytest.raises(FedkinError):
        compared(questions_of("samples", ("kfed",), "wine", ("label-skew",)), tmp_path, 2)


def test_a_failure_is_a_result_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> CellResult:
        raise ValueError("no such luck")

    monkeypatch.setattr(study, "run_cell", fail)
    benchmark = of_clients(tmp_path, "fedavg", "ifca")
    assert benchmark.ranking.ranks == {}
    assert all("no such luck" in text for text in (benchmark.text(), (tmp_path / "report.html").read_text()))


@pytest.mark.parametrize("family", ["clients", "samples"])
def test_every_scenario_has_a_valid_experiment(family: Any) -> None:
    methods = ("ifca", "pacfl", "ladd") if family == "clients" else ("kfed", "kin-graph")
    for question in questions_of(family, methods, scenarios=list(SCENARIOS[family]), rounds=2):
        for candidate in question.candidates():
            config = question.config(candidate, 0)
            assert config.simulation.scenario == SCENARIOS[family][question.label].settings["scenario"]
            unknown = {"ladd": "none", "kin-graph": "auto"}.get(candidate.method)
            expected = unknown or (None if candidate.method == "pacfl" else question.clusters)
            assert config.tables["method"].get("n_clusters") == expected
            assert config.tables["simulation"].get("step", 2) == 2  # changes come in the middle of two rounds


def test_options_behind_a_method_are_checked() -> None:
    (question,) = questions_of("samples", ["ccfc+decorrelation=1"], scenarios=["label-skew"])
    (candidate,) = question.candidates()
    assert question.config(candidate, 0).tables["method"]["decorrelation"] == 1.0
    for wrong in ("ccfc+decorrelation", "ccfc+decorelation=1"):
        with pytest.raises(FedkinError):
            question.config(replace(candidate, method=wrong), 0)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    with Study(tmp_path, {}, 9, Progress()) as first_call:
        first_call.run(study.Cell("kfed", 0), question_of("wine").config(Candidate("kfed", 3), 0), None, False)  # type: ignore[arg-type]
    with (tmp_path / RESULTS).open("a") as file:
        file.write('{"seed": 1, "scen')
    with Study(tmp_path, {}, 9, Progress()) as resumed:
        assert len(resumed.results) == 1  # killed while it wrote
    assert (tmp_path / RESULTS).read_text().endswith("}\n")
    with (tmp_path / RESULTS).open("a") as file:
        file.write('{"seed": 1}\n')
    with pytest.raises(FedkinError, match="cannot be read"), Study(tmp_path, {}, 9, Progress()):
        pass
