"""Fills the tables of options on the pages of methods, scenarios and experiments: ``python docs/make_options.py``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from fedkin.core.options import Option, first_sentences, options_of
from fedkin.experiment import registry, sections
from fedkin.experiment.option_models import FROM_DATA, options_of_section

_DOCS = Path(__file__).parent
_BETWEEN = re.compile(r"(?<=<!-- options -->\n).*?(?=<!-- /options -->)", re.DOTALL)

SCENARIOS = _DOCS / "scenarios.md"
"""The page of all scenarios."""
EXPERIMENTS = _DOCS / "experiments.md"
"""The page of an experiment's other sections."""


def filled(name: str) -> str:
    """The page of a method with its table of options as the method has them now."""
    return _with_tables(page_of(name), _table(options_of(registry.resolve("method", name))))


def filled_scenarios() -> str:
    """The page of the scenarios with each one's options as it has them now."""
    made = {name: registry.resolve("scenario", name) for name in registry.SCENARIOS}
    parts = [f"## {name}\n\n{_as_markdown(first_sentences(one))}\n\n{_table(_own(one))}" for name, one in made.items()]
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


def _table(options: Iterable[Option]) -> str:
    """Options as a table."""
    rows = [
        ("option", "default", "allowed", "meaning"),
        ("---", "---", "---", "---"),
        *(
            (f"`{option.name}`", f"`{option.default_text}`", f"`{option.allowed}`", option.meaning)
            for option in options
        ),
    ]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


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
