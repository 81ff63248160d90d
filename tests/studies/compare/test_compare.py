import csv
import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from comparing import CHEAP, Watch, compared
from fedkin import compare
from fedkin.cli import main
from fedkin.core import FedkinError
from fedkin.core.files import folder_lock
from fedkin.studies.compare import Comparison, Options, question_of
from fedkin.studies.compare.comparison_terminal import print_comparison
from fedkin.studies.run_pool import RunWorker
from shell import fedkin
from site_files import sites

pytestmark = pytest.mark.usefixtures("one_worker")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, hospitals: str) -> tuple[Comparison, Watch]:
    watch = Watch()
    question = question_of(hospitals, methods=CHEAP, settings=["engine.workers=1"])
    out = tmp_path_factory.mktemp("comparisons") / "first"
    return compared(question, Options(CHEAP, seeds=2, budget="1h"), out, watch), watch


def test_the_number_of_clusters_is_found_and_reported(found: tuple[Comparison, Watch]) -> None:
    comparison, watch = found
    lines = {line.method: line for line in comparison.lines}
    assert set(lines) == set(CHEAP)
    assert {line.clusters for line in lines.values()} == {(3, 3)}
    assert all(line.truth["ari"] > 0.95 for line in lines.values())
    assert comparison.truth_gap == pytest.approx(0, abs=0.02)
    assert comparison.recommended == "kfed"  # as good as any, and the cheapest
    assert "moves" in comparison.reason
    assert lines["kmeans"].remark == "a centralised baseline: moves the data"
    assert {"cohesion", "stability", "silhouette", "consensus"} == set(lines["kfed"].measures)
    first = watch.names[: watch.names.index("kfed-3 1")]
    assert all(name.endswith(" 0") for name in first)  # one seed of all before the second of any
    assert {name.split(" ")[0].split("-")[0] for name in first} == {"kfed", "kmeans", "kin"}
    assert [name for name in watch.names if name.startswith("kfed") and name.endswith("1")] == ["kfed-3 1"]


def test_everything_is_on_disk(found: tuple[Comparison, Watch]) -> None:
    comparison, _ = found
    with (comparison.out / "comparison.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == [line.method for line in comparison.lines]
    assert [row["method"] for row in rows if row["recommended"] == "True"] == ["kfed"]
    assert float(rows[0]["megabytes"]) > 0
    assert json.loads((comparison.out / "comparison.json").read_text())["recommended"] == "kfed"
    page = (comparison.out / "report.html").read_text()
    assert "Recommended: <code>kfed</code>. It " in page
    assert "fedkin run kfed" in page
    assert all(name in page for name in CHEAP)
    assert list(comparison.table["method"]) == [row["method"] for row in rows]
    assert (Path(comparison.lines[0].folder) / "report.html").is_file()


def test_what_is_made_is_not_made_again(found: tuple[Comparison, Watch], hospitals: str) -> None:
    comparison, _ = found
    question, watch = question_of(hospitals, methods=CHEAP, settings=["engine.workers=1"]), Watch()
    again = compared(question, Options(CHEAP, seeds=2, budget="5m"), comparison.out, watch)
    assert watch.jobs == []
    assert [(line.name, line.measures, line.truth) for line in again.lines] == [
        (line.name, line.measures, line.truth) for line in comparison.lines
    ]
    more = compared(question, Options(CHEAP, seeds=3, budget="5m"), comparison.out, watch)
    assert {job.seed for job in watch.jobs} == {2}
    assert {line.runs for line in more.lines} == {3}


def first_labels(folder: Path) -> str:
    """The labels of a run's first client, whose file is called after its data."""
    return min((folder / "labels").iterdir()).read_text()


def test_the_command_it_recommends_does_what_was_compared(
    found: tuple[Comparison, Watch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison, _ = found
    monkeypatch.chdir(tmp_path)
    words = comparison.use[0].split()
    with pytest.raises(SystemExit) as end:
        main(words[1:])
    assert end.value.code in (0, None)
    run = Path(words[words.index("--out") + 1])
    labels = [first_labels(folder) for folder in (run, Path(comparison.lines[0].folder))]
    kfed = next(line for line in comparison.lines if line.method == "kfed")
    assert labels[0] == first_labels(Path(kfed.folder))


def test_the_truth_ranks_if_it_is_asked_to(found: tuple[Comparison, Watch], hospitals: str) -> None:
    comparison, _ = found
    question = question_of(hospitals, methods=CHEAP, settings=["engine.workers=1"])
    by_truth = compared(question, Options(CHEAP, seeds=2, budget="5m", by="truth"), comparison.out, Watch())
    scores = [line.truth["ari"] for line in by_truth.lines]
    assert scores == sorted(scores, reverse=True)
    assert by_truth.truth_gap == 0
    assert "agrees best with the truth" in by_truth.reason


def test_the_truth_chooses_the_number_of_clusters_if_it_is_asked_to(
    found: tuple[Comparison, Watch], hospitals: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison, _ = found
    question = question_of(hospitals, methods=CHEAP, settings=["engine.workers=1"])
    monkeypatch.setattr("fedkin.studies.compare.compare.truth_of", lambda _, verdict: -verdict.truth["ari"])
    worst = compared(question, Options(CHEAP, seeds=1, budget="5m", by="truth"), comparison.out, Watch())
    (kfed,) = (line for line in worst.lines if line.method == "kfed")
    assert kfed.number != 3
    assert kfed.truth["ari"] < 0.9


def test_clients_are_compared_by_their_own_tests(tmp_path: Path) -> None:
    methods = ("fedavg", "local", "ocfl")
    question = question_of(
        "label-clusters", methods=methods, clients=6, settings=["method.rounds=4", "engine.workers=1"]
    )
    watch = Watch()
    comparison = compared(question, Options(methods, seeds=1, budget="1h"), tmp_path / "out", watch)
    assert watch.names == ["local 0", "fedavg 0", "ocfl 0"]
    lines = {line.method: line for line in comparison.lines}
    assert lines["fedavg"].clusters == (1,)
    assert lines["local"].clusters == (6,)
    assert lines["local"].remark == "forms no clusters"
    assert all(0 < line.measures["accuracy"] <= 1 for line in lines.values())
    assert len(lines["ocfl"].clients) == 6
    assert lines["ocfl"].truth["ari"] == 1
    scores = [line.measures["accuracy"] for line in comparison.lines]
    assert scores == sorted(scores, reverse=True)


def test_a_known_number_is_given_to_all_that_take_one(tmp_path: Path) -> None:
    watch = Watch()
    options = Options(("kfed", "kin-graph"), clusters=2, seeds=1, budget="1h")
    comparison = compared(question_of("wine", methods=options.methods), options, tmp_path / "out", watch)
    assert watch.names == ["kfed-2 0", "kin-graph-2 0"]
    assert {line.name for line in comparison.lines} == {"kfed, 2 clusters", "kin-graph, 2 clusters"}


def test_what_a_method_refuses_is_reported(tmp_path: Path, hospitals: str) -> None:
    methods = ("ladd", "fedavg")
    question = question_of(hospitals, asked="clients", methods=methods, settings=["method.rounds=1"])
    comparison = compared(question, Options(methods, clusters=2, seeds=1, budget="1h"), tmp_path / "out", Watch())
    lines = {line.method: line for line in comparison.lines}
    assert lines["ladd"].remark.startswith("cannot be applied: ")
    assert lines["fedavg"].runs == 1
    with pytest.raises(FedkinError, match=r"No method suits '.*hospitals': "):
        compared(question, Options(("ladd",), clusters=2, seeds=1, budget="1h"), tmp_path / "other", Watch())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (Options(clusters=1), "--clusters is 1; allowed: 2 or more"),
        (Options(seeds=0), "--seeds is 0; allowed: 1 or more"),
        (Options(by="luck"), "--by is 'luck'; it should be score or truth"),
        (Options(budget="soon"), "--budget is 'soon'"),
    ],
)
def test_options_out_of_their_range_are_refused(options: Options, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(FedkinError, match=sentence):
        compared(question_of("blobs"), options, tmp_path / "out", Watch())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("method.resolution=-1", "kin-graph: 'method.resolution' is -1 on the command line; "),
        ("engine.device=cuda:99", "kfed: 'engine.device'"),
        ("tracking.to=['nothing']", "'tracking.to"),
    ],
)
def test_settings_of_all_methods_are_checked_before_the_first_run(settings: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(FedkinError, match=f"^{re.escape(sentence)}"):
        compared(question_of("digits", settings=[settings]), Options(CHEAP), tmp_path / "out", Watch())
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear")
    with pytest.raises(FedkinError, match=r"holds letter.txt, which is not part of a comparison; give another --out"):
        compared(question_of("blobs"), Options(("kfed",)), tmp_path, Watch())
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
    with pytest.raises(FedkinError, match="is a file; give another --out"):
        compared(question_of("blobs"), Options(("kfed",)), tmp_path / "letter.txt", Watch())


@pytest.mark.parametrize("name", ["plan.json", "numbers.json"])
@pytest.mark.parametrize("content", ["", "[1]", '{"numbers": ["x"], "climbers": 1', "[" * 100_000])
def test_a_damaged_plan_is_refused(name: str, content: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    question, options = question_of("blobs"), Options(("kfed",), seeds=1)
    out.mkdir()
    (out / "plan.json").write_text(json.dumps({**dataclasses.asdict(question), "clusters": options.clusters}))
    (out / name).write_text(content)
    with pytest.raises(FedkinError, match=rf"{name} is not as fedkin wrote it; remove the folder to compare again\.$"):
        compared(question, options, out, Watch())


def test_two_comparisons_cannot_be_made_in_one_folder_at_once(tmp_path: Path) -> None:
    with folder_lock(tmp_path / "out"), pytest.raises(FedkinError, match=r"^Another process is at work in .*out; wait"):
        compare("wine", methods="kfed", n_clusters=3, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_comparison_is_not_mixed_in(found: tuple[Comparison, Watch], hospitals: str) -> None:
    comparison, _ = found
    question = question_of(hospitals, methods=CHEAP, settings=["engine.workers=1"], seed=1)
    with pytest.raises(FedkinError, match=r"holds another comparison: its seed is 0, not 1; give another --out"):
        compared(question, Options(CHEAP), comparison.out, Watch())


def test_the_truth_cannot_rank_where_there_is_none(tmp_path: Path) -> None:
    folder = sites(tmp_path / "plain", labelled=False)
    with pytest.raises(FedkinError, match=r"--by truth needs a truth, and '.*' has none"):
        compared(question_of(folder), Options(by="truth"), tmp_path / "out", Watch())


def test_how_the_data_were_prepared_stands_on_the_page(tmp_path: Path) -> None:
    (tmp_path / "wards").mkdir()
    for at, name in enumerate(("north", "south")):
        rows = "".join(
            f"P{at}{row:03},{row % 2 * 9 + row / 100 + at / 10},{row % 2 * 5 + row % 3}\n" for row in range(30)
        )
        (tmp_path / "wards" / f"{name}.csv").write_text(f"patient,age,dose\n{rows}")
    question = question_of(str(tmp_path / "wards"), methods=("kfed",), settings=["engine.workers=1"])
    comparison = compared(question, Options(("kfed",), clusters=2, seeds=1, budget="1h"), tmp_path / "out", Watch())
    assert comparison.notes == ("Column 'patient' names the rows or says whose they are, so it is no feature.",)
    assert "The data</h2>" in (page := (comparison.out / "report.html").read_text())
    assert "names the rows or says whose they are" in page
    assert json.loads((comparison.out / "comparison.json").read_text())["notes"] == list(comparison.notes)


def test_a_key_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    question = question_of("blobs", settings=["scenario.heterogenity=1"])
    with pytest.raises(FedkinError, match=r"scenario\.heterogenity"):
        compared(question, Options(("kfed",)), tmp_path / "out", Watch())
    assert not (tmp_path / "out").exists()


def test_the_command_prints_a_table_or_json(
    found: tuple[Comparison, Watch], hospitals: str, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison, _ = found
    command = ["compare", hospitals, "--methods", ",".join(CHEAP), "--seeds", "2", "--set", "engine.workers=1"]
    assert fedkin(*command, "--out", str(comparison.out)) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    lines = shown.out.splitlines()
    assert lines[0].startswith("Which samples belong together? ")
    assert lines[1].split() == [
        *("Method", "Clusters", "Cohesion", "Stability", "Silhouette", "Consensus", "ARI", "NMI", "ACC"),
        *("Moved", "Time", "Runs", "Remark"),
    ]  # fmt: skip
    assert any(line.startswith("* kfed, 3 clusters ") for line in lines)
    assert any(
        line.startswith("Recommended: kfed. It keeps neighbouring samples in one cluster (cohesion ") for line in lines
    )
    assert any(line.startswith("  fedkin run kfed ") for line in lines)
    assert lines[-1] == f"Report: {comparison.out / 'report.html'}"
    assert fedkin(*command, "--out", str(comparison.out), "--json") == 0
    assert json.loads(capsys.readouterr().out)["recommended"] == "kfed"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--budget", "later"], "--budget is 'later'"),
        (["--methods", "kfedd"], "kfedd"),
        (["--methods", "ocfl,kfed"], "Method 'ocfl' clusters clients"),
        (["--question", "both"], "Invalid value for '--question': 'both'"),
        (["--clients", "4"], "scenario.clients"),
    ],
)
def test_bad_input_is_one_sentence(
    more: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert fedkin("compare", "blobs", *more) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_comparison_ends_with_130(
    found: tuple[Comparison, Watch], hospitals: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(RunWorker, "run", interrupted)
    command = ["compare", hospitals, "--methods", "kfed", "--seeds", "9", "--set", "engine.workers=1"]
    assert fedkin(*command, "--out", str(found[0].out)) == 130
    assert capsys.readouterr().err == "fedkin: Interrupted; the same command resumes the comparison.\n"


def test_remarks_are_shown_as_they_are_on_a_terminal(
    found: tuple[Comparison, Watch], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = "cannot be applied: pip install 'fedkin[flows]' for d[/x]"
    lines = [dataclasses.replace(line, remark=given) for line in found[0].lines]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "300")
    print_comparison(dataclasses.replace(found[0], lines=tuple(lines)))
    assert capsys.readouterr().out.count(given) == len(lines)


def test_a_labelled_folder_gives_its_truth_in_order_of_rows(hospitals: str, found: tuple[Comparison, Watch]) -> None:
    comparison, _ = found
    kfed = next(line for line in comparison.lines if line.method == "kfed")
    truth = np.load(Path(hospitals) / "0.npz")["y"]
    clusters = [int(row["cluster"]) for row in csv.DictReader(first_labels(Path(kfed.folder)).splitlines())]
    assert len({(int(a), b) for a, b in zip(truth, clusters, strict=True)}) <= 4
