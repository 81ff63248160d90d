"""A page for every paper says where fedkin departs from it, and names only options, modules and files that exist."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

import fedkin
from fedkin.core import FedkinError
from fedkin.core.errors import toml_text
from fedkin.core.method import display_name, options_of
from fedkin.experiment import registry
from fedkin.experiment.config import checked_method, load_config

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "fidelity"
PAPERS = sorted(folder.name for folder in (ROOT / "experiments").iterdir() if folder.is_dir())
SPAN = re.compile(r"`([^`]+)`")
SETTING = re.compile(r"(simulation\.)?([a-z_]+) = (\S+)")
NAME = re.compile(r"(simulation\.)?([a-z_]+)")
SCENARIOS = {
    name: {option.name for option in options_of(registry.resolve("scenario", name))} for name in registry.SCENARIOS
}


def page_of(paper: str) -> str:
    return (PAGES / f"{paper}.md").read_text()


def methods_of(text: str) -> list[str]:
    return sorted(set(re.findall(r"\.\./methods/([a-z-]+)\.md", text)))


def rows_of(text: str) -> list[list[str]]:
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return [row for row in cells if row[0] != "point"]


def holders(prefix: str | None, name: str, methods: list[str]) -> list[str]:
    if prefix:
        return [scenario for scenario, options in SCENARIOS.items() if name in options]
    return [m for m in methods if name in {option.name for option in options_of(registry.resolve("method", m))}]


def is_allowed(prefix: str | None, name: str, value: str, methods: list[str], last: str = "") -> bool:
    """Whether an option has such a value, beside another in the same row's `last` cell that it needs."""
    others = [found for span in SPAN.findall(last) if (found := SETTING.fullmatch(span)) and found[2] != name]
    beside = [f"method.{other[2]}={other[3]}" for other in others if not other[1]] if " with " in last else []
    for holder in holders(prefix, name, methods):
        settings = (
            [f"simulation.scenario={holder}", f"simulation.{name}={value}"]
            if prefix
            else [f"method.{name}={value}", *beside]
        )
        try:
            load_config(methods[0] if prefix else holder, settings)
        except FedkinError:
            continue
        return True
    return False


def test_every_paper_has_a_page() -> None:
    assert sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "index") == PAPERS
    assert all(f"({paper}.md)" in (PAGES / "index.md").read_text() for paper in PAPERS)


@pytest.mark.parametrize("paper", PAPERS)
def test_rows_say_what_differs_and_how_to_have_the_other_form(paper: str) -> None:
    rows = rows_of(page_of(paper))
    assert len(rows) >= 10
    assert [row for row in rows if len(row) != 5 or not all((row[0], row[1], row[2], row[4]))] == []


@pytest.mark.parametrize("paper", PAPERS)
def test_only_what_exists_is_named(paper: str) -> None:
    text = page_of(paper)
    methods, wrong = methods_of(text), []
    for row in rows_of(text):
        for span in (span for cell in row for span in SPAN.findall(cell)):
            if setting := SETTING.fullmatch(span):
                right = is_allowed(*setting.groups(), methods, row[-1])
            elif re.fullmatch(r"\w+\.py", span):
                right = any((ROOT / "src").rglob(span))
            elif span.startswith("fedkin."):
                right = importlib.util.find_spec(span) is not None
            elif name := NAME.fullmatch(span):
                right = bool(holders(*name.groups(), methods)) or span in {"differs", "widths_for"}
            else:
                right = span.startswith('"')
            if not right:
                wrong.append(span)
    assert wrong == []


def test_a_setting_that_does_not_exist_is_told() -> None:
    assert not is_allowed(None, "clusterer", '"nothing"', ["ocfl"])
    assert not is_allowed(None, "no_option", "1", ["ocfl"])
    assert is_allowed(None, "clusterer", '"hdbscan"', ["ocfl"])
    assert is_allowed("simulation.", "drawing", '"replacement"', ["ocfl"])


def test_a_summary_says_where_defaults_are_not_the_papers() -> None:
    """A method whose traits have options of the paper says so in its summary and on its page, and no other does."""
    papers = {name for name in registry.METHODS if registry.resolve("method", name).traits.paper}
    summaries = {name for name, entry in registry.METHODS.items() if entry.summary.endswith("fedkin's form.")}
    texts = {page.stem: page.read_text() for page in (ROOT / "docs" / "methods").glob("*.md")}
    pages = {name for name, text in texts.items() if "**The default is fedkin's form" in text}
    assert papers == summaries == pages
    assert {"ocfl", "fedcref", "ccfc", "embedding"} <= papers


@pytest.mark.parametrize("name", [name for name in registry.METHODS if registry.resolve("method", name).traits.paper])
def test_variant_paper_sets_what_is_not_given_at_every_door(name: str) -> None:
    """Every option of the paper differs from the default, is set by the variant alone, and gives way to one given."""
    declared = registry.resolve("method", name)
    paper, defaults = declared.traits.paper, {option.name: option.default for option in options_of(declared)}
    assert all(paper[key] != defaults[key] for key in paper)
    configured = load_config(name, ["method.variant=paper"])
    estimator: Any = getattr(fedkin, display_name(declared))(variant="paper")
    for made in (configured.method, checked_method(declared, estimator._options())):
        assert {key: getattr(made, key) for key in paper} == paper
        assert declared.traits.form(vars(made)) == "the paper's form"
    for key in [key for key in paper if defaults[key] is not None][:1]:  # TOML has no word for what is not set
        setting = f"method.{key}={toml_text(defaults[key])}"
        assert getattr(load_config(name, ["method.variant=paper", setting]).method, key) == defaults[key]


def test_strategies_have_the_variant() -> None:
    strategies = pytest.importorskip("fedkin.flower")
    assert strategies.OCFLStrategy(variant="paper", clusterer="kmeans").method("auto", 5).clusterer == "kmeans"
