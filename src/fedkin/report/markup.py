"""Functions that write HTML and SVG; every value is escaped, every element closed."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from itertools import groupby

from markupsafe import Markup

from fedkin.core.errors import listing

WIDTH = 400.0
"""Units of every drawing, which is scaled to its card."""


def source(name: str) -> str:
    """Read a text file of this package, such as a template or style sheet."""
    return resources.files("fedkin.report").joinpath(name).read_text(encoding="utf-8")


def fill(template: str, **values: object) -> str:
    """Fill a template; every value is escaped, except `markupsafe.Markup`."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # at the end of a run alone

    templates = Environment(
        loader=FunctionLoader(source), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return templates.get_template(template).render(**values)


def text(value: object) -> str:
    """Escape `value` as text content, except `markupsafe.Markup`."""
    return str(value) if isinstance(value, Markup) else html.escape(str(value), quote=False)


def prose(value: str) -> str:
    """Escape sentences, and mark text in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(value))


def element(name: str, *content: str, **attributes: object) -> str:
    """Write an element around `content` that is already markup.

    Underscores in attribute names become hyphens and a trailing one is dropped (``class_``); values are escaped,
    numbers shortened, ``None`` leaves the attribute out.
    """
    written = ""
    for key, value in attributes.items():
        if value is not None:
            value = short(value) if isinstance(value, float) else html.escape(str(value))
            written += f' {key if key == "viewBox" else key.rstrip("_").replace("_", "-")}="{value}"'
    return f"<{name}{written}>" if name in ("br", "img", "meta") else f"<{name}{written}>{''.join(content)}</{name}>"


def short(number: float) -> str:
    """Format a coordinate with at most one decimal, 0 if it is not finite."""
    return f"{round(number, 1):g}" if math.isfinite(number) else "0"


class Drawing:
    """SVG of a figure, `WIDTH` units wide, whose parts lie above those added before; `look` is its CSS class."""

    def __init__(self, look: str) -> None:
        self.look = look
        self.parts: list[str] = []

    def text(self, x: float, y: float, words: object, look: str | None = None) -> None:
        """Add a text at the base line `y`, whose `look` says which end of it is at `x`."""
        self.parts.append(element("text", text(words), x=x, y=y, class_=look))

    def path(self, d: str, look: str, **attributes: object) -> None:
        """Add lines."""
        self.parts.append(element("path", d=d, class_=look, **attributes))

    def line(self, x0: float, y0: float, x1: float, y1: float, look: str) -> None:
        """Add a straight line."""
        self.path(f"M{short(x0)} {short(y0)}L{short(x1)} {short(y1)}", look)

    def write(self, height: float, words: str) -> str:
        """Write the SVG; `words` describe it for screen readers."""
        box = f"0 0 {WIDTH:g} {short(height)}"
        return element("svg", *self.parts, class_=self.look, viewBox=box, role="img", tabindex=0, aria_label=words)


def figure(title: str, caption: str, *content: str, look: str = "card") -> str:
    """Write a figure: title and caption, if any, and `content` that is already markup."""
    heading = [element("h3", text(title))] if title else []
    heading += [element("p", prose(caption))] if caption else []
    return element("figure", element("figcaption", *heading) if heading else "", *content, class_=look)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], look: str = "numbers") -> str:
    """Write an HTML table with optional column headings; cells are escaped, except `markupsafe.Markup`."""
    head = element("tr", *(element("th", text(name), scope="col") for name in heads))
    body = [
        element("tr", element("th", text(row[0]), scope="row"), *(element("td", text(cell)) for cell in row[1:]))
        for row in rows
    ]
    return element("table", element("thead", head) if heads else "", element("tbody", *body), class_=look)


def sheet(table: str, label: str, legend: str = "") -> str:
    """Wrap a table in a box that scrolls, with `legend` below and a button that copies it as tab-separated values."""
    box = element("div", table, class_="scroll", role="region", aria_label=label, tabindex=0)
    under = element("div", legend, copy_button(f"Copy table: {label}"), class_="under")
    return element("div", box, under, class_="sheet")


def numbers_below(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write the numbers of a drawing as a collapsible table."""
    return folded("The numbers", sheet(table(heads, rows), f"{title}: the numbers"))


def folded(summary: str, content: str) -> str:
    """Write a collapsible block: `summary` opens and closes `content`."""
    return element("details", element("summary", text(summary)), content)


def copy_button(label: str) -> str:
    """Write a button that copies the table or the commands beside it."""
    return element("button", "Copy", type="button", class_="copy", aria_label=label)


def paragraphs(texts: Sequence[str]) -> str:
    """Write texts as HTML paragraphs."""
    return "".join(element("p", prose(paragraph)) for paragraph in texts)


def notes_list(notes: Sequence[str]) -> str:
    """Write notes as an HTML list; nothing without any."""
    return element("ul", *(element("li", prose(note)) for note in notes), class_="notes") if notes else ""


def cluster_mark(cluster: int, name: str = "") -> Markup:
    """Write a small coloured mark for a cluster, followed by `name`, so that colour is never the only sign."""
    return Markup(element("span", class_=f"dot {cluster_class(cluster)}", aria_hidden="true") + text(name))


def cluster_title(cluster: int, before: str = "Cluster ") -> Markup:
    """Write a cluster's mark and its number behind `before`, where the page's script adds the name that it is given."""
    return cluster_mark(cluster, Markup(element("span", f"{before}{cluster}", data_cluster=cluster)))


def cluster_class(cluster: int | None) -> str:
    """Return the CSS classes that give a cluster one of 8 colours and one of 3 marks."""
    return "alone" if cluster is None else f"c{cluster % 8} m{cluster // 8 % 3}"


def name_ranges(names: Sequence[str]) -> str:
    """List names in order, with consecutive numbers as a range; a long list is cut short."""
    parts: list[str] = []
    for _, run in groupby(enumerate(names), key=lambda item: int(item[1]) - item[0] if item[1].isdecimal() else item):
        consecutive = [name for _, name in run]
        parts += [f"{consecutive[0]}–{consecutive[-1]}"] if len(consecutive) > 2 else consecutive
    return listing(parts, 40)
