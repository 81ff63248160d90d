"""Figures of a fitted model: shown in a notebook, or written as a page or as a table."""

from __future__ import annotations

import html
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from fedkin.core.errors import FedkinError
from fedkin.core.files import write_atomically
from fedkin.report.figures import PageView
from fedkin.report.page import render

_ENGINES = {".parquet": ("pyarrow", "fedkin[parquet]"), ".xlsx": ("openpyxl", "openpyxl")}
"""What pandas writes a file of this ending with, and what to install for it."""
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""How texts begin that a spreadsheet would take for formulas."""
_FITTED = "this.style.height=this.contentDocument.documentElement.scrollHeight+'px'"


class Plot:
    """Figures as a page that needs nothing else, with names of clusters, and their numbers as a DataFrame, `frame`."""

    def __init__(self, view: PageView, frame: pd.DataFrame, names: Mapping[int, str]) -> None:
        self.view, self.frame, self.names = view, frame, dict(names)

    def __repr__(self) -> str:
        return f"{self.view.title}: {', '.join(part.title for part in self.view.parts)}; save('plot.html') writes it."

    def _repr_html_(self) -> str:
        # A frame, so that the page's style and a notebook's do not meet.
        page = html.escape(render(self.view, self.names))
        return f'<iframe srcdoc="{page}" onload="{_FITTED}" style="width:100%;height:420px;border:0"></iframe>'

    def save(self, path: str | Path) -> None:
        """Write the page to a file ``.html``, or its numbers to one ``.csv``, ``.parquet`` or ``.xlsx``.

        Embedding Atlas shows the map: ``embedding-atlas map.parquet --x x --y y``. Raises FedkinError for another
        ending, or if the package that writes the file is not installed.
        """
        path = Path(path)
        ending = path.suffix.lower()
        if ending == ".html":
            write_atomically(path, render(self.view, self.names))
            return
        if ending != ".csv" and ending not in _ENGINES:
            raise FedkinError(f"'{path}' should end in .html, .csv, .parquet or .xlsx.")
        engine, package = _ENGINES.get(ending, ("pandas", ""))
        if find_spec(engine) is None:
            raise FedkinError(f"'{path}' is written by {engine}, which is not installed: pip install '{package}'.")
        path.parent.mkdir(parents=True, exist_ok=True)
        if ending == ".parquet":
            self.frame.to_parquet(path, index=False)
            return
        safe = self.frame.map(
            lambda cell: f"'{cell}" if str(cell).startswith(_FORMULAS) and isinstance(cell, str) else cell
        )
        safe.to_csv(path, index=False) if ending == ".csv" else safe.to_excel(path, index=False)
