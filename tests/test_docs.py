"""The documentation does what it says: its examples run, its links lead somewhere; names are unique."""

import ast
import dataclasses
import io
import re
import runpy
import shlex
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pydantic import BaseModel

import fedkin
from fedkin.cli import main
from fedkin.cli.app import DONE, FAILED, INTERRUPTED, REFUSED
from fedkin.core.method import options_of
from fedkin.experiment import config, registry
from fedkin.experiment.config import load_config

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FIRST = ("README.md", "docs/get-started.md", "docs/data.md")
METHODS = ROOT / "docs" / "methods"
BLOCK = re.compile(r"^```(python|toml|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CELL = re.compile(r"^```\{code-cell\} python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^(`{3,}|:{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
FILLED = runpy.run_path(str(ROOT / "docs" / "generated.py"))["filled"]
"""The text of a page with the lists that the site shows."""
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")
NUMBERS = re.compile(r"# (?:array\()?(-?\d+(?:\.\d+)?|\[[^]]*\])\)?(?=$|[,;:] )")
"""A comment behind an expression that begins with the number, or the list of numbers, that it gives."""

NOTEBOOKS = [page for page in PAGES if "mystnb" in page.read_text()[:40]]
LONG = ("flower-app",)
"""Notebooks that start processes of their own, for half a minute."""

SECTIONS = [section for section in config.SECTIONS.values() if section.__name__ != "MethodSection"]
"""Sections of an experiment that are the same whatever the method."""

FEW = ["method.rounds=2", "method.local_epochs=1"]
QUICK = {
    "fedcref": [
        f"method.{option}"
        for option in ("initial=kmeans", "local_epochs=1", "rounds=1", "min_steps=0", "max_iterations=1")
    ],
    "kin-graph": ["simulation.fraction=0.2"],
    "kfed": [],
    "mufc": [],
    "feddp-kmeans": [],
    "afcl": ["method.rounds=2"],
    "kmeans": [],
    "fedkmeans:FederatedKMeans": [],
    "fuzzy-cmeans": [],
    "ffcm": ["method.rounds=2"],
    "ccfc": ["method.pretrain_rounds=1", "method.cluster_rounds=1", "simulation.fraction=0.1"],
    "scfc": ["method.pretrain_rounds=1", "simulation.fraction=0.1"],
    "sda-fc": ["method.epochs=1", "method.min_steps=1", "simulation.fraction=0.1", "method.capacity=0.05"],
    "ppfc-gan": ["method.epochs=1", "method.min_steps=1", "simulation.fraction=0.1", "method.capacity=0.05"],
    "uifca": ["method.cluster_rounds=1", "method.rounds=1", "method.local_steps=2", "method.width=8"],
    "dec": ["method.pretrain_steps=20", "method.max_refreshes=1", "method.restarts=1", "simulation.fraction=0.2"],
    "hierarchical": [*FEW, "method.clustering_round=2"],
    "embedding": [*FEW, "method.pretraining_rounds=1", "method.pretraining_steps=1", "method.pretraining_epochs=1"],
}
"""What makes a run short, by method; all others are made so by `FEW`. No run draws a map, which takes longest."""
STUDIES = {"compare": ["--clusters", "5", "--set", "simulation.fraction=0.2"], "reproduce": ["--seeds", "1"]}
"""What makes the runs of a study short and few, by command."""


def examples(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def marked(page: Path) -> object:
    """A page's example runs among all tests if it is the first that a reader meets, else with the pages."""
    return pytest.param(page, id=named(page), marks=() if named(page) in FIRST else pytest.mark.pages)


@pytest.mark.filterwarnings("ignore:Synthetic samples left the clients")  # their pages say so
@pytest.mark.parametrize("page", [marked(page) for page in PAGES if examples(page)])
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, in one folder: Python, files (their first line is ``# name``), and `fedkin` commands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "METHODS", dict(registry.METHODS))
    monkeypatch.setitem(registry._TABLES, "method", registry.METHODS)
    names: dict[str, object] = {"__name__": "example"}
    for language, text in examples(page):
        file = re.match(r"# (\S+\.(?:py|toml))\n", text)
        if file:
            Path(file[1]).write_text(text)
            monkeypatch.delitem(sys.modules, Path(file[1]).stem, raising=False)
        elif language == "python":
            run_python(text, str(page), names)
        elif language == "sh":
            for line in text.replace("\\\n", " ").splitlines():
                run_command(line)


@pytest.mark.pages
@pytest.mark.filterwarnings("ignore:.* clusters were asked for")  # a reader sees it, and the page says so
@pytest.mark.parametrize("page", [page for page in NOTEBOOKS if page.stem not in LONG], ids=named)
def test_cells_of_notebooks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, in this process, which has imported what they need; a slow test has Sphinx run them."""
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))
    names: dict[str, object] = {"__name__": "notebook"}
    for cell in CELL.findall(page.read_text()):
        run_python(re.sub(r"(?m)^[%:].*", "", cell), str(page), names)  # magic, and options of the cell
    plt.close("all")


def run_python(text: str, page: str, names: dict[str, object]) -> None:
    """The block, statement by statement; an expression must give the numbers that the comment behind it says."""
    promised = dict(promises(text))
    for statement in ast.parse(text).body:
        number = promised.get(statement.end_lineno or 0) if isinstance(statement, ast.Expr) else None
        if number is None:
            exec(compile(ast.Module([statement], []), page, "exec"), names)
        else:
            given = eval(compile(ast.Expression(statement.value), page, "eval"), names)
            digits = len(str(number).partition(".")[2]) if isinstance(number, float) else 0
            wanted, found = np.asarray(number), np.asarray(given)
            assert np.array_equal(found.round(digits), wanted), f"{ast.unparse(statement)} gives {given}, not {number}"


def promises(text: str) -> Iterator[tuple[int, object]]:
    """Lines of a block that end in a number or a list of numbers as a comment, with these."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        found = NUMBERS.match(token.string) if token.type == tokenize.COMMENT else None
        if found and "..." not in found[1]:
            yield token.start[0], ast.literal_eval(found[1])


def run_command(line: str) -> None:
    program, *arguments = shlex.split(line, comments=True) or [""]
    if program != "fedkin":
        return
    if arguments[0] == "run":
        settings = [*QUICK.get(load_config(arguments[1]).method_name, FEW), "evaluation.map=none"]
        arguments += [part for setting in settings for part in ("--set", setting)]
    arguments += STUDIES.get(arguments[0], [])
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert not end.value.code, line


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    """To a file that is there and, where a heading is named, to one of its headings."""
    wrong = []
    for target, heading in LINK.findall(FENCED.sub("", page.read_text())):
        file = page.parent / target if target else page
        if not file.exists() or (heading and heading not in headings(file)):
            wrong.append(f"{target}#{heading}" if heading else target)
    assert wrong == []


def headings(page: Path) -> set[str]:
    """Names that headings of a page go by in links."""
    text = text_of(page) if page.is_relative_to(ROOT / "docs") else page.read_text()
    titles = re.findall(r"^#+ (.*)$", FENCED.sub("", text), re.MULTILINE)
    plain = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


def test_tables_of_results_are_those_of_their_data() -> None:
    """Every table between markers is made from the data, and every table of these has a command that is there."""
    results = runpy.run_path(str(ROOT / "docs" / "make_results.py"))
    for page, text in results["pages"]().items():
        assert page.read_text() == text, "run `make results`"
    tables = {
        (file.stem, line["table"])
        for file in results["DATA"].glob("*.csv")
        for line in results["lines"](file.stem)
        if "row" in line
    }
    sources = {(line["page"], line["table"]): line for line in results["lines"]("sources")}
    assert tables == set(sources)
    for line in sources.values():
        scripts = re.findall(r"(?:benchmarks|experiments)/[\w-]+\.(?:py|toml)", line["command"])
        assert re.match(r"(\w+=\S+ )?(fedkin|python) ", line["command"])
        assert line["commit"]
        assert all((ROOT / script).exists() for script in scripts), line["command"]


def test_the_page_of_coverage_counts_every_printed_cell_once() -> None:
    """Of every entry, each printed cell is measured in one way, and those at full size are compared once."""
    results = runpy.run_path(str(ROOT / "docs" / "make_results.py"))
    entries = {f"{file.parent.name}/{file.stem}" for file in (ROOT / "experiments").glob("*/*.toml")}
    assert [line["entry"] for line in results["lines"]("coverage")] == sorted(entries, key=by_number)
    for name in entries:
        counts, seeds, _ = results["coverage"](name)
        assert sum(counts[way] for way in results["_MEASURED"]) == counts["printed"]
        assert sum(counts[outcome] for outcome in ("inside", "better", "worse", "open")) == counts["full size"]
        assert bool(seeds) == bool(counts["full size"])
    elsewhere = [(line["entry"], line["cell"]) for line in results["lines"]("coverage-elsewhere")]
    printed = {name: {cell for cell, *_ in results["_printed"](results["coverage"](name)[2])} for name in entries}
    dashes = {"ocfl/table-1"}  # where the paper prints a dash, ours has a figure
    assert [cell for name, cell in elsewhere if cell not in printed[name] and name not in dashes] == []


def by_number(name: str) -> list[int | str]:
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


@pytest.mark.parametrize("spec", sorted((ROOT / "benchmarks").glob("*.toml")), ids=lambda spec: spec.stem)
def test_cells_of_a_spec_of_the_benchmarks_are_experiments(spec: Path) -> None:
    from fedkin.studies.reproduce.entry import load_entry, plan_of

    assert plan_of(spec.stem, load_entry(spec), "quick", seeds=1).runs()


def test_every_method_has_a_page() -> None:
    written = {page.stem for page in METHODS.glob("*.md")} - {"index"}
    assert written == set(registry.METHODS)


@pytest.mark.parametrize("name", registry.METHODS)
def test_the_options_on_a_methods_page_exist(name: str) -> None:
    """Whatever stands in backticks as ``key = value`` is allowed, and every word there is a parameter or a method."""
    codes = re.findall(r"`([^`]+)`", FENCED.sub("", (METHODS / f"{name}.md").read_text()))
    for code in codes:
        if re.fullmatch(r"[a-z_]+ = \S+", code):
            load_config(name, [f"method.{code.replace(' = ', '=')}"])
    fields = {field.name for field in dataclasses.fields(registry.resolve("method", name))}
    words = {code for code in codes if re.fullmatch(r"[a-z]+(_[a-z]+)*", code)}
    assert words - fields - set(registry.METHODS) - {"fit", "labels"} == set()


def text_of(page: Path) -> str:
    """A page as the site shows it."""
    return str(FILLED(str(page.relative_to(ROOT / "docs").with_suffix("")), page.read_text()))


@pytest.mark.parametrize("name", registry.METHODS)
def test_the_site_shows_a_methods_options(name: str) -> None:
    """On its page, or on the one that it refers to."""
    text = text_of(METHODS / f"{name}.md")
    shared = re.findall(r"\]\(([a-z-]+)\.md#options\)", text)
    shown = text + "".join(text_of(METHODS / f"{other}.md") for other in shared)
    names = [option.name for option in options_of(registry.resolve("method", name))]
    assert [option for option in names if not re.search(rf"^\* `{option}(` | = )", shown, re.MULTILINE)] == []


def test_the_site_shows_every_scenario_section_command_and_exit_code() -> None:
    titles = {page: headings(ROOT / "docs" / f"{page}.md") for page in ("scenarios", "experiments", "cli")}
    assert set(registry.SCENARIOS) <= titles["scenarios"]
    assert {"data", "federation", "device", "simulation", "evaluation"} <= titles["experiments"]
    assert {"fedkin-run", "fedkin-federation-init"} <= titles["cli"]
    codes = re.findall(r"^\| (\d+) \|", (ROOT / "docs" / "cli.md").read_text(), re.MULTILINE)
    assert {int(code) for code in codes} == {DONE, FAILED, REFUSED, INTERRUPTED}


def test_every_estimator_has_a_page_in_the_lists() -> None:
    make_api = runpy.run_path(str(ROOT / "docs" / "make_api.py"))
    for path, written in make_api["pages"]().items():
        assert path.read_text() == written, "run `make options`"
    there = {path.stem for path in (ROOT / "docs" / "api" / "estimators").glob("*.md")}
    assert there == {name for name in fedkin.__all__ if hasattr(getattr(fedkin, name), "fit")}


def test_every_option_has_a_meaning() -> None:
    made = [registry.resolve("method", name) for name in registry.METHODS]
    made += [registry.resolve("scenario", name) for name in registry.SCENARIOS]
    options = {f"{one.__name__}.{option.name}": option.meaning for one in made for option in options_of(one)}
    options |= {f"{one.__name__}.{option.name}": option.meaning for one in SECTIONS for option in options_of(one)}
    assert [name for name, meaning in options.items() if not meaning] == []


@pytest.mark.parametrize("section", SECTIONS)
def test_no_page_names_an_option_of_a_section_that_is_not_there(section: type[BaseModel]) -> None:
    name = section.__name__.removesuffix("Section").lower()
    text = "\n".join(page.read_text() for page in PAGES)
    options = {option.name for each in registry.SCENARIOS for option in options_of(registry.resolve("scenario", each))}
    known = {*section.model_fields, *(options if name == "simulation" else ())}
    assert set(re.findall(rf"[`' ]{name}\.([a-z_]+)\s?=", text)) - known == set()


@pytest.mark.parametrize("file", sorted((ROOT / "experiments").glob("*.toml")), ids=lambda file: file.name)
def test_experiments_are_understood(file: Path) -> None:
    assert load_config(file).method_name in registry.METHODS


def test_the_rooms_of_the_architecture_page_are_the_packages() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    named_there = set(re.findall(r"^\| `(\w+)/` \|", page, re.MULTILINE))
    assert named_there == {init.parent.name for init in (ROOT / "src" / "fedkin").glob("*/__init__.py")}
