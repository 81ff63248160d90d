"""The whole of it on digits: runs in worker processes, tables, pages."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import entries
import forked
from fedkin.cli import main
from fedkin.core import FedkinError
from fedkin.experiment.run_folder import CONFIG
from fedkin.studies.reproduce.command import Grid, Watcher, _Bar, plans_of, reproduce, write_tables
from fedkin.studies.reproduce.measures import probed
from fedkin.studies.reproduce.reproduce_page import summary
from fedkin.studies.workers import run_all


class KeptLines(Watcher):
    def __init__(self) -> None:
        self.lines: list[tuple[object, ...]] = []

    def began(self, done: int, total: int) -> None:
        self.lines.append((done, total))

    def ended(self, name: str, failed: str | None, ahead: float) -> None:
        self.lines.append((failed, ahead))


pytestmark = pytest.mark.usefixtures("forked_workers")


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, KeptLines]:
    folder = tmp_path_factory.mktemp("reproduced")
    path, reported = entries.written(folder), KeptLines()
    reproduce(plans_of([str(path)], "quick"), folder / "out", 1, reported)
    return path, folder / "out", reported


def test_an_entry_is_run_and_set_beside_the_paper(reproduced: tuple[Path, Path, KeptLines]) -> None:
    path, out, reported = reproduced
    table = json.loads((out / "try" / "quick" / "table.json").read_text())
    cells = {(cell["row"], cell["column"]): cell for cell in table["cells"]}
    assert (table["runs"], table["finished"]) == (4, 4)
    assert cells["k-FED", "p = 0"]["verdict"] == "one seed: higher"
    assert cells["k-FED", "p = 0"]["is_better"] is True
    assert cells["k-FED", "p = 1"]["verdict"] == "one seed: near"
    assert cells["k-means", "p = 0"]["verdict"] == ""
    assert cells["k-means", "p = 0"]["ours"]["value"] > 0.5
    assert table["claims"][0]["holds"] == "holds"
    told_lines = reported.lines
    assert told_lines[0] == (0, 4)
    assert [ahead for _, ahead in told_lines[1:]] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    text = (out / "try" / "quick" / "table.md").read_text()
    assert "A third of the data." in text
    assert "Ours beside the paper's (in brackets): ≈ one seed: near, △ one seed: higher." in text
    assert f"fedkin reproduce {path} --scale quick" in text
    assert (out / "try" / "quick" / "report.html").exists()


def test_what_is_there_is_not_run_again(
    reproduced: tuple[Path, Path, KeptLines], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out, _ = reproduced
    monkeypatch.setattr("fedkin.studies.reproduce.command.run_all", None)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", str(path), "--out", str(out)])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert re.search(r"^ *k-FED +0\.", printed, re.MULTILINE)
    assert "|--" not in printed


def test_finished_runs_that_a_probe_has_not_looked_at_are_looked_at_and_not_run_again(
    reproduced: tuple[Path, Path, KeptLines], tmp_path: Path
) -> None:
    _, out, _ = reproduced
    plans = plans_of([str(entries.written(tmp_path, measure="knn-samples/3"))], "quick")
    pending = Grid(plans).pending(out / "runs")
    before = {name: (out / "runs" / name / "timing.jsonl").stat().st_mtime_ns for name in pending}
    assert len(before) == 4
    found = KeptLines()
    (table,), failed = reproduce(plans, out, 1, found)
    assert failed == {}
    assert found.lines[0] == (0, 4)
    assert all((out / "runs" / name / "probe-knn-samples.json").exists() for name in pending)
    assert before == {name: (out / "runs" / name / "timing.jsonl").stat().st_mtime_ns for name in pending}
    assert Grid(plans).pending(out / "runs") == {}
    assert all(result.ours is not None and 0.5 < result.ours.value <= 1 for result in table.results)


def test_a_table_of_no_runs_has_dashes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = entries.written(tmp_path)
    with pytest.raises(SystemExit):
        main(["reproduce", str(path), "--out", str(tmp_path / "out"), "--show", "--markdown"])
    printed = capsys.readouterr().out
    assert "| k-FED | – (0.100) | – (0.900 ± 0.500) |" in printed
    assert "Not tested at this scale: More than nothing" in printed


def test_tables_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = entries.written(tmp_path), tmp_path / "out"
    with pytest.raises(SystemExit) as end:
        main(["reproduce", str(path), "--out", str(out), "--show", "--json", "--quiet"])
    assert end.value.code == 0
    (written,) = out.rglob("table.json")
    assert json.loads(capsys.readouterr().out) == [json.loads(written.read_text())]


def test_a_stopped_run_goes_on_and_a_failed_one_stops_nobody(
    reproduced: tuple[Path, Path, KeptLines], tmp_path: Path
) -> None:
    """A folder that holds the beginning of a run, as a killed worker leaves it, ends as one that was never stopped."""
    path, out, _ = reproduced
    (plan,) = plans_of([str(path)], "quick")
    good, bad = list(plan.jobs.values())[:2]
    runs = tmp_path / "runs"
    (runs / good.name).mkdir(parents=True)
    (runs / good.name / CONFIG).write_bytes((out / "runs" / good.name / CONFIG).read_bytes())
    tables = {**bad.tables, "data": {**bad.tables["data"], "source": "nothing.csv"}}
    seen: list[str] = []
    failed = run_all({"bad": tables, good.name: good.tables}, runs, 1, lambda name, why: seen.append(name))
    assert set(seen) == {"bad", good.name}
    assert list(failed) == ["bad"]
    assert "'nothing.csv' does not exist" in failed["bad"]
    for name in ("records.jsonl", "result.json"):
        assert (runs / good.name / name).read_bytes() == (out / "runs" / good.name / name).read_bytes()


def test_a_stopped_run_with_a_page_is_not_finished(reproduced: tuple[Path, Path, KeptLines], tmp_path: Path) -> None:
    """`fedkin report` writes the page of a run that is still going on, too."""
    path, out, _ = reproduced
    plans = plans_of([str(path)], "quick")
    runs = shutil.copytree(out / "runs", tmp_path / "runs")
    assert Grid(plans).pending(runs) == {}
    stopped = next(iter(plans[0].jobs))
    (runs / stopped / "result.json").unlink()
    assert list(Grid(plans).pending(runs)) == [stopped]


def test_the_longest_come_first_and_each_once(tmp_path: Path) -> None:
    long = entries.tables(title="Long")
    long["scales"]["quick"] |= {"core_seconds": 100.0, "seeds": [1]}
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    short, long_path = entries.written(tmp_path / "a"), tmp_path / "b" / "long.toml"
    long_path.write_text(entries.tomli_w.dumps(long))
    pending = Grid(plans_of([str(short), str(long_path), str(short)], "quick")).pending(tmp_path)
    assert len(pending) == 8
    assert [name[-2:] for name in pending] == ["s1"] * 4 + ["s0"] * 4


def test_some_rows_and_columns_may_be_run_alone(tmp_path: Path) -> None:
    plans = plans_of([str(entries.written(tmp_path))], "quick")
    counts = [len(Grid(plans, only).jobs) for only in ((), ["k-FED"], ["p = 0"], ["k-FED", "p = 1"])]
    assert counts == [4, 2, 2, 1]
    with pytest.raises(FedkinError, match="Unknown row or column 'k-FID'; did you mean 'k-FED'"):
        reproduce(plans, tmp_path / "out", 1, Watcher(), ["k-FID"])


def test_entries_without_a_row_or_column_that_is_named_are_not_run(tmp_path: Path) -> None:
    rows = [{"name": "other", "set": {"method.name": "kmeans", "method.n_clusters": 3}}]
    other = tmp_path / "other.toml"
    other.write_text(entries.tomli_w.dumps(entries.tables(rows=rows, claims=[])))
    plans = plans_of([str(entries.written(tmp_path)), str(other)], "quick")
    first, second = plans
    assert Grid(plans, ["k-FED"]).jobs.keys() == Grid([first], ["k-FED"]).jobs.keys()
    assert Grid(plans, ["other", "p = 1"]).jobs.keys() == Grid([first], ["p = 1"]).jobs.keys() | set(
        Grid([second], ["other", "p = 1"]).jobs
    )
    assert second.jobs_of(["k-FED"]) == {}


def test_a_row_or_column_that_is_not_there_is_refused_where_tables_are_only_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = entries.written(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", str(path), "--out", str(tmp_path / "out"), "--show", "--only", "k-FID"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("fedkin: Unknown row or column 'k-FID'; did you mean 'k-FED'")
    assert not (tmp_path / "out").exists()


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        entries.written(tmp_path / folder)
    paths = [tmp_path / folder / "try.toml" for folder in ("a", "b")]
    with pytest.raises(FedkinError, match=f"^{paths[0]} and {paths[1]} have one name, 'try', and so one folder"):
        plans_of([str(path) for path in paths], "quick")
    assert len(plans_of([str(paths[0]), str(tmp_path / "b" / ".." / "a" / "try.toml")], "quick")) == 1


def test_entries_may_be_called_as_parts_of_the_page_are(tmp_path: Path) -> None:
    for name in ("all", "settings"):
        (tmp_path / f"{name}.toml").write_text(entries.tomli_w.dumps(entries.tables()))
    plans = plans_of([str(tmp_path / f"{name}.toml") for name in ("all", "settings")], "quick")
    write_tables(plans, tmp_path / "out")
    page = (tmp_path / "out" / "summary-quick.html").read_text()
    assert page.count('id="all"') == page.count('id="entry-all"') == page.count('id="entry-settings"') == 1


def test_pipes_in_names_do_not_end_a_cell(tmp_path: Path) -> None:
    rows = [{"name": "P(a|b)", "set": {"method.name": "kmeans", "method.n_clusters": 3}}]
    columns = [{"name": "|x|", "set": {"scenario.heterogeneity": 0.0}}]
    (tmp_path / "a.toml").write_text(entries.tomli_w.dumps(entries.tables(title="a|b", axis="a|b", rows=rows,
                                                                          columns=columns, claims=[])))  # fmt: skip
    (table,) = write_tables(plans_of([str(tmp_path / "a.toml")], "quick"), tmp_path / "out")
    text = (tmp_path / "out" / "a" / "quick" / "table.md").read_text()
    assert r"| a\|b | \|x\| |" in text
    assert r"| P(a\|b) | – |" in text
    assert r"| a | Table 1: a\|b | 0 of 1 |" in summary([table])


def test_many_entries_have_a_summary(tmp_path: Path) -> None:
    names = ["a", "b"]
    for name in names:
        (tmp_path / f"{name}.toml").write_text(entries.tomli_w.dumps(entries.tables(title=f"About {name}")))
    plans = plans_of([str(tmp_path / f"{name}.toml") for name in names], "quick")
    write_tables(plans, tmp_path / "out")
    text = (tmp_path / "out" / "summary-quick.md").read_text()
    assert "| a | Table 1: About a | 0 of 4 |" in text
    assert "## b: About b" in text
    assert "About a" in (tmp_path / "out" / "summary-quick.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing"], "fedkin: Unknown entry 'nothing'"),
        (["all", "--scale", "huge"], "fedkin: Invalid value for '--scale': 'huge' is not one of 'quick', 'paper'."),
        (["none.toml"], "fedkin: Cannot read none.toml"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", *arguments, "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(sentence)
    assert not (tmp_path / "out").exists()


def test_a_failed_run_is_reported_and_the_table_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hog = {"method.name": "kfed", "method.n_clusters": 3, "method.features": "hog", "data.source": "wine"}
    path = entries.written(tmp_path, columns=entries.tables()["columns"][:1], claims=[],
                           rows=[{"name": "k", "set": hog}])  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", str(path), "--out", str(tmp_path / "out"), "--jobs", "1"])
    printed = capsys.readouterr()
    assert ended.value.code == 2
    assert "failed (Features 'hog'" in printed.err
    assert printed.err.endswith("); the tables show what the others found.\n")
    assert re.search(r"^k +–$", printed.out, re.MULTILINE)


def test_all_runs_are_checked_before_the_first_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": name, "set": {"method.name": "kfed", "data.source": f"{name}.csv"}} for name in ("no", "none")]
    good = {"name": "good", "set": {"method.name": "kfed", "method.n_clusters": 3}}
    path = entries.written(tmp_path, columns=entries.tables()["columns"][:1], claims=[], rows=[good, *rows])
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", str(path), "--out", str(tmp_path / "out"), "--jobs", "1"])
    assert ended.value.code == 2
    assert [line.partition(";")[0] for line in capsys.readouterr().err.splitlines()] == [
        "fedkin: 'no.csv' does not exist", "'none.csv' does not exist"
    ]  # fmt: skip
    assert not (tmp_path / "out").exists()


def test_all_entries_are_listed_with_their_times(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["reproduce", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert printed.startswith("entry")
    assert "GFLOP/s each" in printed


def test_what_no_method_should_raise_stops_nobody(
    reproduced: tuple[Path, Path, KeptLines], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, out, _ = reproduced
    (plan,) = plans_of([str(path)], "quick")
    bad, good = list(plan.jobs)[:2]
    runs = shutil.copytree(out / "runs", tmp_path / "runs")
    experiments = {name: plan.jobs[name].tables for name in (bad, good)}
    seen: list[str] = []
    failed = run_all(experiments, runs, 1, lambda name, why: seen.append(name), {bad: ["no-such-probe"]}, probed)
    assert set(seen) == {bad, good}
    assert failed == {bad: "KeyError: 'no-such-probe'"}
    assert "Traceback" in capfd.readouterr().err


def test_square_brackets_are_shown_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with _Bar() as bar:
        bar.preparing("small[/x].safetensors")
        bar.display.refresh()
    assert "Training small[/x].safetensors" in capsys.readouterr().err


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    path = entries.written(tmp_path)
    words = ["reproduce", str(path), "--out", str(tmp_path / "out"), "--jobs", "1"]
    parent = forked.Program(tmp_path, tmp_path / "log", forked.fedkin, words).process
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    try:
        _wait_until(lambda: (tmp_path / "out" / "runs").is_dir())
        workers = [Path("/proc") / child for child in children.read_text().split()]
        assert workers
    finally:
        parent.kill()
        parent.join()
    _wait_until(lambda: not any(_alive(worker) for worker in workers))


def _alive(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _wait_until(met: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end
        time.sleep(0.1)
