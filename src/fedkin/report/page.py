"""The frame that all reports share: title, lead, contents, sections; light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template

from fedkin.report.markup import copy_button, element, prose, text

LONGEST_VALUE = 9
"""Longer headlines are written smaller, and may take two lines."""


@dataclass(frozen=True)
class Section:
    """A part of the page: `anchor` names it in links, `body` is markup."""

    anchor: str
    title: str
    body: str


def page(title: str, lead: str, opening: str, sections: Sequence[Section]) -> str:
    """A whole page that loads nothing from anywhere.

    Parameters
    ----------
    title, lead : str
        Plain text.
    opening : str
        Markup between the lead and the first section, such as `headlines`.
    sections : sequence of Section
        The contents list links to them.
    """
    links = [element("li", element("a", text(section.title), href=f"#{section.anchor}")) for section in sections]
    contents = element("nav", element("ul", *links), aria_label="Contents") if len(links) > 1 else ""
    parts = [element("section", element("h2", text(s.title)), s.body, id=s.anchor) for s in sections]
    lead_in = element("p", prose(lead), class_="lead") if lead else ""
    return Template(_file("page.html")).substitute(
        title=text(title),
        lead=lead_in,
        opening=opening,
        contents=contents,
        sections="\n".join(parts),
        style=_file("page.css"),
        script=_file("page.js"),
    )


def _file(name: str) -> str:
    return resources.files("fedkin.report").joinpath(name).read_text(encoding="utf-8")


def headlines(summary: Sequence[tuple[str, str, str]]) -> str:
    """Headline numbers as cards: what, how much, and what that means."""
    cards = [
        element(
            "div",
            element("dt", text(label)),
            element("dd", text(value), class_="value" if len(value) <= LONGEST_VALUE else "value long"),
            element("dd", text(explanation)),
        )
        for label, value, explanation in summary
    ]
    return element("dl", *cards, class_="headlines") if cards else ""


def gallery(*figures: str, columns: int) -> str:
    """Figures side by side, at most `columns` of them, fewer where the window is narrow."""
    return element("div", *figures, class_=f"gallery of{columns}")


def paragraphs(texts: Sequence[str]) -> str:
    """Texts one below the other."""
    return "".join(element("p", prose(each)) for each in texts)


def sentences(notes: Sequence[str]) -> str:
    """Notes as a list."""
    return element("ul", *(element("li", prose(note)) for note in notes), class_="notes")


def commands(lines: Sequence[str]) -> str:
    """Lines for a shell, one below the other."""
    block = element("pre", element("code", text("\n".join(lines))), tabindex=0, role="region", aria_label="Commands")
    return element("div", block, copy_button("Copy commands"), class_="commands")
