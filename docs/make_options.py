"""Fills the table of options on every method's page: ``python docs/make_options.py``."""

from __future__ import annotations

import re
from pathlib import Path

from fedkin.core.options import options_of
from fedkin.experiment import registry

_METHODS = Path(__file__).parent / "methods"
_BETWEEN = re.compile(r"(?<=<!-- options -->\n).*?(?=<!-- /options -->)", re.DOTALL)


def filled(name: str) -> str:
    """The page of a method with its table of options as the method has them now."""
    rows = [
        ("option", "default", "allowed", "meaning"),
        ("---", "---", "---", "---"),
        *(
            (f"`{option.name}`", f"`{option.default_text}`", f"`{option.allowed}`", option.meaning)
            for option in options_of(registry.resolve("method", name))
        ),
    ]
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    text, filled_tables = _BETWEEN.subn(lambda _: f"\n{table}\n\n", page_of(name).read_text())
    if filled_tables != 1:
        raise ValueError(f"{page_of(name)} has {filled_tables} places for options; it needs one.")
    return text


def page_of(name: str) -> Path:
    """The file of a method's page."""
    return _METHODS / f"{name}.md"


if __name__ == "__main__":
    for method in registry.METHODS:
        page_of(method).write_text(filled(method))
