"""Comparisons from the question to the page: what is tried, kept on disk and resumed, recommended and doubted."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin
from comparing import Here
from fedkin.cli import main
from fedkin.core import FedkinError
from fedkin.core.files import folder_lock
from fedkin.studies.compare import Options, compared
from fedkin.studies.comparison import Comparison, page_of, print_comparison
from fedkin.studies.question import Question, question_of
from shell import fedkin as command
from site_files import sites

CHEAP = ("kfed", "kmeans", "kin-graph")
RNG = np.random.default_rng(0)
TRUTH = [RNG.integers(0, 2, 40) for _ in range(2)]
SITES = [RNG.normal(size=(40, 2)) + 9 * y[:, None] for y in TRUTH]
OPTIONS: dict[str, Any] = {
    "methods": ["kfed", "kmeans"], "n_clusters": 2, "budget": "1h", "seeds": 2, "settings": ["device.workers=1"]
}  # fmt: skip


def cheap(hospitals: str, **more: Any) -> Question:
    return question_of(hospitals, methods=CHEAP, settings=["device.workers=1"], **more)


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> str:
    return sites(tmp_path_factory.mktemp("data") / "hospitals", clusters=3, count=3, samples=60)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    """The worker of all comparisons."""
    worker = Here()
    monkeypatch.setattr("fedkin.studies.compare.Worker", lambda: worker)
    return worker


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, hospitals: str) -> tuple[Comparison, Here]:
    worker = Here()
    out = tmp_path_factory.mktemp("comparisons") / "first"
    return compared(cheap(hospitals), Options(seeds=2, budget="1h"), out, False, worker), worker


def test_the_number_of_clusters_is_found_and_reported(first: tuple[Comparison, Here]) -> None:
    comparison, worker = first
    lines = {line.method: line for line in comparison.lines}
    assert set(lines) == set(CHEAP)
    assert lines["kin-graph"].clusters == (3, 3)
    assert lines["kin-graph"].measures["found_again"] > 0.95
    assert all(line.measures["ari"] > 0.85 for line in lines.values())
    assert comparison.recommended in ("kfed", "kin-graph")
    assert comparison.confident
    assert comparison.better_than_chance
    assert lines["kmeans"].remark == "a centralised baseline: moves the data"
    assert worker.made[0] == "kin-graph 0"
    seeds = [name[-1] for name in worker.made]
    assert seeds == sorted(seeds)  # one seed of all before the second of any
    assert seeds.count("1") == 3


def test_everything_is_on_disk_and_nothing_is_made_again(first: tuple[Comparison, Here], hospitals: str) -> None:
    comparison, _ = first
    with (comparison.out / "comparison.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == [line.method for line in comparison.lines]
    assert [row["method"] for row in rows if row["recommended"] == "True"] == [comparison.recommended]
    assert list(comparison.table["method"]) == [row["method"] for row in rows]
    page = (comparison.out / "report.html").read_text()
    assert f"Recommended: <code>{comparison.recommended}</code>. It " in page
    assert all(name in page for name in CHEAP)
    worker = Here()
    same = compared(cheap(hospitals), Options(seeds=2, budget="1h"), comparison.out, False, worker)
    assert worker.made == []
    assert same.rows() == comparison.rows()
    more = compared(cheap(hospitals), Options(seeds=3, budget="1h"), comparison.out, False, worker)
    assert {name[-1] for name in worker.made} == {"2"}
    assert {len(line.results) for line in more.lines} == {3}


def test_the_command_it_recommends_does_what_was_compared(
    first: tuple[Comparison, Here], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = first[0].use[0].split()
    with pytest.raises(SystemExit) as end:
        main(words[1:])
    assert end.value.code in (0, None)
    labels = sorted((Path(words[words.index("--out") + 1]) / "labels").iterdir())
    assert len({line.split(",")[1] for path in labels for line in path.read_text().splitlines()[1:]}) == 3


def test_a_folder_of_something_else_is_left_alone(
    tmp_path: Path, first: tuple[Comparison, Here], hospitals: str
) -> None:
    (tmp_path / "letter.txt").write_text("Dear")
    blobs = question_of("blobs", methods=["kfed"])
    for folder in (tmp_path, tmp_path / "letter.txt"):
        with pytest.raises(FedkinError, match="give another --out"):
            compared(blobs, Options(), folder, False, Here())
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
    with pytest.raises(FedkinError, match=r"holds another comparison: its seed is 0, not 1"):
        compared(cheap(hospitals, seed=1), Options(), first[0].out, False, Here())
    with folder_lock(tmp_path / "out"), pytest.raises(FedkinError, match="Another process is at work"):
        compared(blobs, Options(), tmp_path / "out", False, Here())


def test_the_command_prints_a_table_or_json(
    first: tuple[Comparison, Here], hospitals: str, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison, _ = first
    words = ["compare", hospitals, "--methods", ",".join(CHEAP), "--seeds", "2", "--set", "device.workers=1"]
    assert command(*words, "--budget", "1h", "--out", str(comparison.out)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Which samples belong together? ")
    assert lines[1].split() == [
        "Method", "Clusters", "Found", "again", "Stability", "ARI", "NMI", "ACC", "Moved", "Time", "Runs", "Remark"
    ]  # fmt: skip
    assert any(line.startswith(f"* {comparison.recommended}") for line in lines)
    assert any(line.startswith(f"  fedkin run {comparison.recommended} ") for line in lines)
    assert lines[-1] == f"Report: {comparison.out / 'report.html'}"
    assert command(*words, "--budget", "1h", "--out", str(comparison.out), "--json") == 0
    assert json.loads(capsys.readouterr().out)["recommended"] == comparison.recommended
    assert command("compare", hospitals, "--methods", "kfedd") == 2


def test_clients_in_memory_are_compared_as_files_are(tmp_path: Path, here: Here) -> None:
    comparison = fedkin.compare(SITES, TRUTH, out=tmp_path, **OPTIONS)
    assert comparison.recommended == "kfed"
    assert comparison.table.loc[comparison.table["recommended"], "ari"].tolist() == [1.0]
    assert comparison.use == ("fedkin.KFed(n_clusters=2).fit(clients)",)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"plan.json", "results.jsonl", "comparison.json", "comparison.csv", "report.html"}
    runs = list(here.made)
    repeated = fedkin.compare([x.tolist() for x in SITES], TRUTH, out=tmp_path, **OPTIONS)
    assert repeated.rows() == comparison.rows()
    assert here.made == runs
    for x, y in (([x + 1 for x in SITES], TRUTH), (SITES, None), (SITES[:1] * 2, TRUTH[:1] * 2)):
        with pytest.raises(FedkinError, match="holds another comparison"):
            fedkin.compare(x, y, out=tmp_path, **OPTIONS)


def test_data_without_structure_are_recommended_nothing_with_confidence(tmp_path: Path, here: Here) -> None:
    noise = [pd.DataFrame(RNG.normal(size=(60, 5))) for _ in range(2)]
    comparison = fedkin.compare(noise, out=tmp_path, **OPTIONS)
    assert (comparison.confident, comparison.better_than_chance) == (False, False)
    assert comparison.warnings[0].startswith("No better than chance: ")
    assert comparison.lead.startswith("Recommended, but without confidence: kfed. ")
    parts = {part.anchor: part for part in page_of(comparison).parts}
    assert list(parts["doubts"].notes) == comparison.doubts
    print_comparison(comparison)


def test_a_method_is_compared_with_options_of_its_own_and_called_with_them(tmp_path: Path, here: Here) -> None:
    options = {**OPTIONS, "methods": "kfed+server=one-round", "seeds": 1}
    comparison = fedkin.compare(SITES, TRUTH, out=tmp_path, **options)
    assert comparison.recommended == "kfed+server=one-round"
    assert comparison.use == ("fedkin.KFed(n_clusters=2, server='one-round').fit(clients)",)
    assert comparison.confident


def test_a_number_that_is_found_again_no_better_than_by_chance_is_given_after_the_ladder(tmp_path: Path) -> None:
    """AFCL's twenty clusters of 178 wines are no reason to give every method twenty before it had three."""
    worker, methods = Here(), ("afcl", "kfed", "mufc")
    question = question_of("wine", methods=methods, settings=["device.workers=1"])
    comparison = compared(question, Options(seeds=1, budget="1h"), tmp_path / "out", False, worker)
    assert worker.made[0] == "afcl 0"
    afcl = next(line for line in comparison.lines if line.method == "afcl")
    assert afcl.measures["found_again"] < 0.6
    assert worker.made[1:4] == ["kfed-2 0", "kfed-3 0", "kfed-4 0"]
    assert comparison.recommended in ("kfed", "mufc")
