"""Figures of a fitted model, shown in a notebook or written as a page."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path

from fedkin.core.files import write_atomically
from fedkin.report.figures import PageView
from fedkin.report.page import render

_FITTED = "this.style.height=this.contentDocument.documentElement.scrollHeight+'px'"


class Plot:
    """Figures as a page that needs nothing else, with names of clusters."""

    def __init__(self, view: PageView, names: Mapping[int, str]) -> None:
        self.view, self.names = view, dict(names)

    def __repr__(self) -> str:
        return f"{self.view.title}: {', '.join(part.title for part in self.view.parts)}; save('plot.html') writes it."

    def _repr_html_(self) -> str:
        # A frame, so that the page's style and a notebook's do not meet.
        page = html.escape(render(self.view, self.names))
        return f'<iframe srcdoc="{page}" onload="{_FITTED}" style="width:100%;height:420px;border:0"></iframe>'

    def save(self, path: str | Path) -> None:
        """Write the page to a file."""
        write_atomically(Path(path), render(self.view, self.names))
