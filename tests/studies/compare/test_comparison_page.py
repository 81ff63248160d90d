from dataclasses import replace
from pathlib import Path

import pytest

from fedkin.experiment import registry
from fedkin.studies.compare.comparison import Comparison, ComparisonRow
from fedkin.studies.compare.comparison_page import cells, page_of
from fedkin.studies.compare.comparison_terminal import print_comparison

KFED = ComparisonRow(
    "kfed", 3, "", 2, (3, 3), {"cohesion": 0.5}, {}, (), 1000.0, 1.0, (), "", "", spread=0.02
)  # fmt: skip


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    run = tmp_path / "runs" / "a b" / "seed-0"
    run.mkdir(parents=True)
    (run / "report.html").write_text("")
    lines = (
        replace(KFED, folder=str(run)),
        replace(KFED, method="ffcm", number=4, folder=str(tmp_path / "runs" / "ffcm")),
        replace(KFED, method="kmeans", role="centralised"),
    )
    return Comparison(
        "Which?", "samples", lines, "kfed", "is best", ("fedkin run kfed",), "score", None, 2, 60.0, 5.0, 0, tmp_path,
        {}, warnings=("Beware.",), as_good=("ffcm, 4 clusters",),
    )  # fmt: skip


def test_the_recommendation_comes_first_and_doubts_have_a_part_of_their_own(comparison: Comparison) -> None:
    page = page_of(comparison)
    assert page.lead == "Recommended: `kfed`. It is best.\nWhich?"
    assert [part.anchor for part in page.parts] == ["doubts", "methods", "leaves", "next"]
    assert list(page.parts[0].notes) == ["Beware.", "About as good by the score: ffcm, 4 clusters."]
    assert page_of(replace(comparison, warnings=(), as_good=())).parts[0].anchor == "methods"


def test_the_ranking_shows_how_sure_it_is(comparison: Comparison) -> None:
    part = page_of(comparison).parts[1]
    assert [row[1][1].text for row in part.tables[0].rows] == ["0.500 ± 0.020"] * 3
    assert [row[1][1].beside for row in part.tables[0].rows] == ["", "about as good", ""]
    assert list(part.bars[0].errors) == [0.02] * 3


def test_numbers_of_clusters_are_given_or_found_where_there_are_some(comparison: Comparison) -> None:
    lines = (KFED, replace(KFED, number=None), replace(KFED, number=None, role="baseline"), replace(KFED, runs=0))
    [table] = page_of(replace(comparison, lines=lines)).parts[1].tables
    assert [row[1][0].beside for row in table.rows] == ["given", "found", "", ""]


def test_names_lead_to_the_pages_of_runs_that_have_one(comparison: Comparison) -> None:
    assert page_of(comparison).parts[1].tables[0].links == {"kfed": "runs/a%20b/seed-0/report.html"}


def test_what_leaves_a_client_is_told_by_method(comparison: Comparison) -> None:
    [table] = page_of(comparison).parts[2].tables
    said = {name: (row[0].text, row[0].beside, row[1].text) for name, row in table.rows}
    assert said["kfed"] == ("The centroids of its own clusters, and how many there are.", "", "1 kB")
    assert said["kmeans"][:2] == ("The features of all its samples.", "samples, or copies, leave")


def test_of_clients_the_error_is_that_of_their_mean(comparison: Comparison) -> None:
    line = replace(KFED, measures={"accuracy": 0.5}, clients=(0.25, 0.75, None), spread=None)
    assert line.error == pytest.approx(0.25)
    clients = replace(comparison, family="clients", lines=(line,))
    assert "0.500 ± 0.250" in cells(clients, line)
    assert replace(line, clients=(0.25, None)).error is None


@pytest.mark.parametrize("name", registry.METHODS)
def test_every_method_says_what_a_client_sends(name: str) -> None:
    said = registry.resolve("method", name).sends
    assert said == said.strip().rstrip(".")
    assert len(said) > 20


def test_that_runs_have_not_finished_is_said_once(comparison: Comparison, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, third = comparison.lines
    few = replace(
        comparison,
        lines=(
            replace(first, runs=1),
            replace(second, runs=1),
            replace(third, remark="a centralised baseline: moves the data"),
        ),
    )
    notes = page_of(few).parts[1].notes
    assert [note for note in notes if "finished" in note] == ["Of 2 methods fewer than 2 runs finished, see Runs."]
    assert "kmeans: a centralised baseline: moves the data." in notes
    print_comparison(few)
    assert capsys.readouterr().out.count("finished") == 1
    print_comparison(comparison)
    assert "finished" not in capsys.readouterr().out
