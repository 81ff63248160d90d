"""Fills the tables of options on the pages of methods, scenarios and experiments: ``python docs/make_options.py``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from fedkin.core.options import Option, first_sentences, options_of
from fedkin.experiment import registry, sections
from fedkin.experiment.option_models import FROM_DATA, options_of_section

_DOCS = Path(__file__).parent
_BETWEEN = re.compile(r"(?<=<!-- options -->\n).*?(?=<!-- /options -->)", re.DOTALL)

_SHARED = {"scfc": "ccfc", "ppfc-gan": "sda-fc"}
"""Methods that are another one with a part exchanged, with the other one."""

SCENARIOS = _DOCS / "scenarios.md"
"""The page of all scenarios."""
EXPERIMENTS = _DOCS / "experiments.md"
"""The page of an experiment's other sections."""


def filled(name: str) -> str:
    """The page of a method with its options as the method has them now; those of another page by name alone."""
    options, other = options_of(registry.resolve("method", name)), _page_with_the_rest(name)
    if other is None:
        return _with_tables(page_of(name), _table(options))
    there = {_looks(option): option.default for option in options_of(registry.resolve("method", other))}
    rest = [option for option in options if _looks(option) in there]
    changed = [f"`{option.name} = {option.default_text}`" for option in rest if option.default != there[_looks(option)]]
    text = f"And those of [{other}]({other}.md#options): " + ", ".join(f"`{option.name}`" for option in rest)
    text += f". Other defaults here: {', '.join(changed)}." if changed else "."
    own = [option for option in options if option not in rest]
    return _with_tables(page_of(name), f"{_table(own)}\n\n{text}" if own else text)


def _page_with_the_rest(name: str) -> str | None:
    """The method on whose page the options are that several share."""
    if name in _SHARED:
        return _SHARED[name]
    return "fedavg" if name != "fedavg" and registry.resolve("method", name).clusters == "clients" else None


def _looks(option: Option) -> tuple[str, str, str]:
    """All of an option but its default."""
    return option.name, option.allowed, option.meaning


def filled_scenarios() -> str:
    """The page of the scenarios with each one's options as it has them now; those that several have come first."""
    made = {name: registry.resolve("scenario", name) for name in registry.SCENARIOS}
    times = Counter(_looks(option) for one in made.values() for option in _own(one))
    common = {_looks(option): option for one in made.values() for option in _own(one) if times[_looks(option)] > 1}
    parts = [f"## Options of several\n\n{_table(common.values(), default=False)}"]
    for name, one in made.items():
        shared = [f"`{o.name} = {o.default_text}`" for o in _own(one) if _looks(o) in common]
        rest = [option for option in _own(one) if _looks(option) not in common]
        parts.append(f"## {name}\n\n{_as_markdown(first_sentences(one))}")
        if shared:
            parts.append(f"Options of several: {', '.join(shared)}.")
        if rest:
            parts.append(_table(rest))
    return _with_tables(SCENARIOS, "\n\n".join(parts))


def filled_experiments() -> str:
    """The page of experiments with the options of each section as it has them now."""
    parts = []
    for name in ("data", "engine", "federation", "evaluation", "target", "tracking"):
        section = getattr(sections, f"{name.capitalize()}Section")
        about = _as_markdown(first_sentences(section)).partition(": ")[2]
        text = f"{about[0].upper()}{about[1:].partition(', see')[0].partition('; see')[0].rstrip('.')}."
        parts.append(f"## {name}\n\n{text}\n\n{_table(options_of_section(section))}")
    return _with_tables(EXPERIMENTS, "\n\n".join(parts))


def page_of(name: str) -> Path:
    """The file of a method's page."""
    return _DOCS / "methods" / f"{name}.md"


def _with_tables(page: Path, tables: str) -> str:
    text, filled_tables = _BETWEEN.subn(lambda _: f"\n{tables}\n\n", page.read_text())
    if filled_tables != 1:
        raise ValueError(f"{page} has {filled_tables} places for options; it needs one.")
    return text


def _table(options: Iterable[Option], default: bool = True) -> str:
    """Options as a table, with or without the column of defaults."""
    rows = [("option", "default", "allowed", "meaning"), ("---",) * 4]
    rows += [(f"`{each.name}`", f"`{each.default_text}`", f"`{each.allowed}`", each.meaning) for each in options]
    kept = [row if default else (row[0], *row[2:]) for row in rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in kept)


def _own(scenario: type) -> list[Option]:
    """The options of a scenario, less those that the section ``[data]`` gives."""
    return [option for option in options_of(scenario) if option.name not in FROM_DATA]


def _as_markdown(text: str) -> str:
    return text.replace("``", "`")


if __name__ == "__main__":
    for method in registry.METHODS:
        page_of(method).write_text(filled(method))
    SCENARIOS.write_text(filled_scenarios())
    EXPERIMENTS.write_text(filled_experiments())
