"""Clusters of a fitted estimator for a notebook: a block of HTML in the style of a run's page, which loads nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fedkin.report import markup
from fedkin.report.markup import element, text

_RULES = """
  padding: 14px 18px; max-width: 60em; border: 1px solid var(--rule); border-radius: 12px;
  background: var(--surface); color: var(--ink); font: 14px/1.5 system-ui, sans-serif; overflow-wrap: anywhere;
  p { margin: 0 0 .6em; } p:first-of-type { font-size: 1.1em; font-weight: 600; }
  ul { list-style: none; margin: 0 0 .8em; padding: 0; } li { margin: .25em 0; }
  div { overflow: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
  th, td { padding: 3px 10px; text-align: right; border-bottom: 1px solid var(--rule); background: var(--surface); }
  th:first-child { text-align: left; } summary { cursor: pointer; color: var(--link); } details { margin-top: .6em; }
  pre { margin: .4em 0 0; white-space: pre-wrap; color: var(--ink); background: var(--surface); }
"""


def _style() -> str:
    """Return the colours and marks of a run's page, and the block's own rules, which reach nothing beside it."""
    page = markup.source("page.css")
    light, dark = re.findall(r":root \{(.*?)\}", page, re.DOTALL)[:2]
    marks = "\n".join(line for line in page.splitlines() if line.startswith((".c0,", ".c4,", ".dot")))
    return f".fedkin-fit {{{light}{_RULES}{marks}\n}}\n@media (prefers-color-scheme: dark) {{ .fedkin-fit {{{dark}}} }}"


def notebook_block(
    title: str, sentences: Sequence[tuple[int, str]], heads: Sequence[str], rows: Sequence[Sequence[str]], settings: str
) -> str:
    """Write the block: a title, a sentence with its cluster each, a table of sizes and, folded, the settings."""
    items = [element("li", markup.cluster_mark(cluster), text(sentence)) for cluster, sentence in sentences]
    parts = [element("style", _style()), element("p", text(title)), element("ul", *items)]
    if rows:
        parts.append(element("div", markup.table(heads, rows)))
    parts.append(markup.folded("Parameters", element("pre", text(settings))))
    return element("div", *parts, class_="fedkin-fit")
