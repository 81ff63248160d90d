"""Methods paragraphs, tables and citations of runs."""

import re
from pathlib import Path

import pytest

from fedkin.experiment.registry import METHODS
from fedkin.studies.citations import field, papers_of
from shell import fedkin

PAGES = Path(__file__).parents[2] / "docs" / "methods"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("runs")
    small = ["--set", "simulation.fraction=0.1", "--set", "evaluation.map=none", "-q"]
    paths = [str(folder / name) for name in ("four", "five", "fewer")]
    for path, seed, clusters in zip(paths, "454", ("9", "9", "3"), strict=True):
        assert fedkin("run", "kfed", *small, "--seed", seed, "--clusters", clusters, "--out", path) == 0
    return paths


def test_the_paragraph_says_what_the_folders_hold(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert fedkin("methods", *runs[:2]) == 0
    text = capsys.readouterr().out
    for part in (
        "10 clients held ", "(digits, ", "KFed (Dennis, Li and Smith, 2021)", "default settings except n_clusters = 9",
        "What clients sent: ", "No sample left a client", "(seeds 4 and 5)", " ± ", "torch",
        "@inproceedings{dennis2021", "@software{fedkin,",
    ):  # fmt: skip
        assert part in text
    assert fedkin("methods", *runs) == 2
    assert fedkin("methods", runs[0], runs[0]) == 2
    assert capsys.readouterr().out == ""


def test_a_table_has_a_row_per_setting(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert fedkin("table", *runs) == 0
    head, line, first, second = capsys.readouterr().out.splitlines()
    assert head.count("|") == line.count("|") == first.count("|") == second.count("|")
    assert first.startswith("| kfed | n_clusters = 9 | 2 | ")
    assert second.startswith("| kfed | n_clusters = 3 | 1 | ")
    assert " ± " in first
    assert " ± " not in second
    assert fedkin("table", *runs, "--latex") == 0
    latex = capsys.readouterr().out
    assert all(part in latex for part in (r"n\_clusters = 9 & 2 & ", " ± ", r"\bottomrule"))


def test_citations_are_those_of_the_pages_of_methods(capsys: pytest.CaptureFixture[str]) -> None:
    cited = {method for method in METHODS if papers_of(method)}
    assert METHODS.keys() - cited == {"kin-graph", "local", "declared"}
    for method in cited - {"kmeans", "fuzzy-cmeans"}:  # whose pages name no title
        (row,) = re.findall(r"^\| paper \| (.*) \|$", (PAGES / f"{method}.md").read_text(), re.MULTILINE)
        for paper in papers_of(method):
            names = field(paper, "author").removesuffix(" and others").split(" and ")
            assert all(part in row for part in (f"*{field(paper, 'title')}*", *names))
            assert field(paper, "year") in row or method == "fedcref"
    assert fedkin("cite", "fedavg") == 0
    assert capsys.readouterr().out.count("@inproceedings{") == 2
    assert fedkin("cite", "ocfll") == 2
