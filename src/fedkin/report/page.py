"""Frame of all reports: an HTML page with title, lead, contents and sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fedkin.report.markup import copy_button, element, fill, prose, source, text

LONGEST_VALUE = 9
"""Longer headlines are written smaller, and may take two lines."""


@dataclass(frozen=True)
class Section:
    """Section of a page: `anchor` names it in links, `body` is markup."""

    anchor: str
    title: str
    body: str


def page(title: str, lead: str, summary: Sequence[tuple[str, str, str]], sections: Sequence[Section]) -> str:
    """Fill the template of a whole page, which loads nothing from elsewhere.

    `title` and `lead` are plain text. In the lead, text in backticks is shown as code, and each line is a paragraph,
    the first the largest. `summary` has headline numbers as (label, value, explanation), shown as cards. The contents
    list links to the sections.
    """
    style, script = Markup(source("page.css")), Markup(source("page.js"))
    return fill(
        "page.html", title=title, lead=[Markup(prose(line)) for line in lead.splitlines()], summary=summary,
        sections=sections, style=style, script=script, longest=LONGEST_VALUE,
    )  # fmt: skip


def gallery(*figures: str, columns: int) -> str:
    """Place figures side by side, at most `columns` in a row, fewer in a narrow window."""
    return element("div", *figures, class_=f"gallery of{columns}")


def paragraphs(texts: Sequence[str]) -> str:
    """Write texts as HTML paragraphs."""
    return "".join(element("p", prose(each)) for each in texts)


def sentences(notes: Sequence[str]) -> str:
    """Write notes as an HTML list."""
    return element("ul", *(element("li", prose(note)) for note in notes), class_="notes")


def commands(lines: Sequence[str]) -> str:
    """Write shell commands as a code block with a button to copy them."""
    block = element("pre", element("code", text("\n".join(lines))), tabindex=0, role="region", aria_label="Commands")
    return element("div", block, copy_button("Copy commands"), class_="commands")
