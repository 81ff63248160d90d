"""Comparisons from the question to the page: what is tried, written and resumed, recommended and doubted."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin
from fedkin.core import FedkinError
from fedkin.studies import compare as comparing
from fedkin.studies.compare import Question, compared, parsed_duration, question_of, run_cell
from fedkin.studies.comparison import CellResult, Comparison
from shell import fedkin as command
from site_files import sites

CHEAP = ("kfed", "kmeans", "kin-graph")
RNG = np.random.default_rng(0)
TRUTH = [RNG.integers(0, 2, 40) for _ in range(2)]
SITES = [RNG.normal(size=(40, 2)) + 9 * y[:, None] for y in TRUTH]
OPTIONS: dict[str, Any] = {
    "methods": ["kfed", "kmeans"], "n_clusters": 2, "budget": "1h", "seeds": 2, "settings": {"device.workers": 1}
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
        patch.setattr(comparing, "run_cell", run)
        yield cells


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> str:
    return sites(tmp_path_factory.mktemp("data") / "hospitals", clusters=3, count=3, samples=60)


def cheap(hospitals: str, **more: Any) -> Question:
    return question_of(hospitals, methods=CHEAP, settings=["device.workers=1"], **more)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, hospitals: str, runs: Runs) -> tuple[Comparison, Runs]:
    out = tmp_path_factory.mktemp("comparisons") / "first"
    runs.clear()
    return compared(cheap(hospitals), out, 2, "1h"), [*runs]


def test_the_number_of_clusters_is_found_and_reported(first: tuple[Comparison, Runs]) -> None:
    comparison, cells = first
    lines = {line.method: line for line in comparison.lines}
    assert set(lines) == set(CHEAP)
    assert lines["kin-graph"].clusters == (3, 3)
    assert lines["kin-graph"].measures["found_again"] > 0.8
    assert all(line.measures["ari"] > 0.85 for line in lines.values())
    assert comparison.recommended in ("kfed", "kin-graph")
    assert comparison.confident
    assert lines["kmeans"].role == "centralised"
    assert cells[0] == "kin-graph 0"
    seeds = [cell[-1] for cell in cells]
    assert seeds == sorted(seeds)  # one seed of all before the second of any
    assert seeds.count("1") == 3


def test_the_command_it_recommends_does_what_was_compared(
    first: tuple[Comparison, Runs], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = first[0].use[0].split()
    assert command(*words[1:]) == 0
    labels = sorted((Path(words[words.index("--out") + 1]) / "labels").iterdir())
    assert len({line.split(",")[1] for path in labels for line in path.read_text().splitlines()[1:]}) == 3


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear")
    for folder in (tmp_path, tmp_path / "letter.txt"):
        with pytest.raises(FedkinError):
            compared(question_of("blobs", methods=["kfed"]), folder)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_the_command_prints_a_table_or_json(
    first: tuple[Comparison, Runs], hospitals: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    comparison, _ = first
    words = ["compare", hospitals, "--methods", "kfed,kmeans", "--clusters", "3", "--seeds", "1", "--quiet"]
    assert command(*words, "--out", str(tmp_path / "quiet")) == 0
    assert capsys.readouterr().out == ""
    text = comparison.text()
    assert text.startswith(f"Recommended: {comparison.recommended}. It ")
    assert command(*words[:-1], "--json", "--out", str(tmp_path / "quiet")) == 0  # in the place of the one before
    assert json.loads(capsys.readouterr().out)["recommended"] == "kfed"
    assert command("compare", hospitals, "--methods", "kfedd") == 2


def test_clients_in_memory_are_compared_as_files_are(tmp_path: Path) -> None:
    comparison = fedkin.compare(SITES, TRUTH, out=tmp_path, **OPTIONS)
    assert comparison.recommended == "kfed"
    assert comparison.table.loc[comparison.table["recommended"], "ari"].tolist() == [1.0]
    assert comparison.use == ()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"comparison.json", "report.html"}


def test_data_without_structure_are_recommended_nothing_with_confidence(tmp_path: Path) -> None:
    noise = [pd.DataFrame(RNG.normal(size=(60, 5))) for _ in range(2)]
    comparison = fedkin.compare(noise, out=tmp_path, **OPTIONS)
    assert not comparison.confident
    assert comparison.lead.startswith("Recommended, but without confidence: `kfed`. ")
    page, text = (tmp_path / "report.html").read_text(), " ".join(comparison.text().split())
    assert all(warning in page and warning in text for warning in comparison.warnings)


def test_no_run_begins_after_the_budget(
    tmp_path: Path, hospitals: str, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 1.0, *[99.0] * 1000])  # when the comparison begins, before its first run, and after it
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    runs.clear()
    comparison = compared(cheap(hospitals), tmp_path, 1, 10)
    assert runs == ["kin-graph 0"]
    assert [row.remark for row in comparison.rows if not row.results] == ["not reached in the budget"] * 2


def test_budgets_are_durations() -> None:
    assert [parsed_duration(text) for text in ("90s", "1.5h", 2)] == [90, 5400, 2]
    for text in ("", "0s", "10", "m", -1, float("inf"), "soon"):
        with pytest.raises(FedkinError):
            parsed_duration(text)


def test_a_failure_is_a_row_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(config: Any, *arguments: Any) -> CellResult:
        if config.method_name == "kmeans":
            raise ValueError("no such luck")
        return run_cell(config, *arguments)

    monkeypatch.setattr(comparing, "run_cell", fail)
    comparison = fedkin.compare(SITES, out=tmp_path, **OPTIONS)
    assert comparison.recommended == "kfed"
    assert all("no such luck" in text for text in (comparison.text(), (tmp_path / "report.html").read_text()))
