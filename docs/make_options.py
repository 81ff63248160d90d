"""Fills the tables of options, on every method's page and on that of the scenarios: ``python docs/make_options.py``."""

from __future__ import annotations

import re
from pathlib import Path

from fedkin.core.options import first_sentences, options_of
from fedkin.experiment import registry
from fedkin.experiment.option_models import FROM_DATA

_DOCS = Path(__file__).parent
_BETWEEN = re.compile(r"(?<=<!-- options -->\n).*?(?=<!-- /options -->)", re.DOTALL)

SCENARIOS = _DOCS / "scenarios.md"
"""The page of all scenarios."""


def filled(name: str) -> str:
    """The page of a method with its table of options as the method has them now."""
    return _with_tables(page_of(name), _table(registry.resolve("method", name)))


def filled_scenarios() -> str:
    """The page of the scenarios with each one's options as it has them now."""
    made = {name: registry.resolve("scenario", name) for name in registry.SCENARIOS}
    parts = [f"## {name}\n\n{_as_markdown(first_sentences(one))}\n\n{_table(one)}" for name, one in made.items()]
    return _with_tables(SCENARIOS, "\n\n".join(parts))


def page_of(name: str) -> Path:
    """The file of a method's page."""
    return _DOCS / "methods" / f"{name}.md"


def _with_tables(page: Path, tables: str) -> str:
    text, filled_tables = _BETWEEN.subn(lambda _: f"\n{tables}\n\n", page.read_text())
    if filled_tables != 1:
        raise ValueError(f"{page} has {filled_tables} places for options; it needs one.")
    return text


def _table(made: type) -> str:
    """The options of a dataclass, less those that the section ``[data]`` gives."""
    rows = [
        ("option", "default", "allowed", "meaning"),
        ("---", "---", "---", "---"),
        *(
            (f"`{option.name}`", f"`{option.default_text}`", f"`{option.allowed}`", option.meaning)
            for option in options_of(made)
            if option.name not in FROM_DATA
        ),
    ]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def _as_markdown(text: str) -> str:
    return text.replace("``", "`")


if __name__ == "__main__":
    for method in registry.METHODS:
        page_of(method).write_text(filled(method))
    SCENARIOS.write_text(filled_scenarios())
