from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from fedkin.report.figures import (
    Curve,
    Figure,
    Mark,
    PagePart,
    PageView,
    ResultTable,
    SampleMap,
    TableCell,
)
from fedkin.report.page import render, write_page
from page_views import COLUMNS, comparison, full_view, reproduction


class Page(HTMLParser):
    """A strict reader: every element is closed in order; keeps attributes, headings and visible text."""

    void = frozenset({"meta", "br", "img", "wbr"})

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


PAGES = {
    "nothing": render(PageView("Nothing")),
    "one cluster": render(full_view(1)),
    "run": render(full_view()),
    "sixty clusters": render(full_view(60)),
    "comparison": render(comparison()),
    "reproduction": render(reproduction()),
}


@pytest.mark.parametrize("source", PAGES.values(), ids=PAGES)
def test_page_is_well_formed_and_loads_nothing(source: str) -> None:
    page = Page(source)
    assert not re.search(r"https?:|//[a-z]|@import", re.sub(r"base64,[^)]*", "", source))
    addresses = [a.get("href") or a.get("src") or "" for _, a in page.elements if "href" in a or "src" in a]
    anchors = {a["id"] for a in page.of("section")}
    assert {address.removeprefix("#") for address in addresses} <= anchors
    assert all(found.startswith("data:image/png;base64,") for found in re.findall(r"url\((.{30})", source))


def test_every_part_of_the_view_is_written_in_words() -> None:
    words = " ".join(Page(render(full_view())).words)
    for text in (
        "A run", "What it found.", "across 3 clients", "Higher is better.", "Together.", "Who.", "Means.",
        "Four bits each.", "Falling.", "Two events.", "Client 2 was missing once.", "method.epochs",
        "5 samples from 1 client", "Cluster 2", "weight",
    ):  # fmt: skip
        assert text in words
    words = " ".join(Page(PAGES["comparison"]).words)
    for text in (*COLUMNS, "0.981", "± 0.004", "best of its column", "fedkin run kin-graph"):
        assert text in words
    assert "within the spread" not in words  # no sign of it is used


def test_equal_views_give_equal_bytes_whatever_the_order_of_dicts(tmp_path: Path) -> None:
    write_page(tmp_path / "one.html", full_view())
    view = full_view()
    write_page(tmp_path / "two.html", replace(view, settings=dict(reversed(view.settings.items()))))
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def figures_named(bad: str) -> list[Figure]:
    """Figures of a run with the same name everywhere."""
    return [
        Curve(bad, bad, range(4), {bad: [1.0, 2.0, 3.0, 4.0]}, x_label=bad, marks=[Mark(0, bad)]),
        ResultTable(bad, bad, bad, [0, bad], [(bad, [TableCell(bad)] * 2)], foot=[(bad, [TableCell(bad)] * 2)]),
        SampleMap(bad, bad, np.zeros((1, 2)), np.array([[0]]), ids=[bad], client_names=[bad], sentences=[{0: bad}]),
    ]


def test_results_cannot_break_out_of_the_page() -> None:
    bad = "</script><script>alert('x')</script>\"><img src=x onerror=1>&amp;"
    table = ResultTable(bad, bad, bad, [bad], [(bad, [TableCell(bad, bad, "best", bad)])])
    curve = Curve(bad, bad, [0], {bad: [1.0]})
    part = PagePart("a", bad, [bad], [bad], [table, curve, *figures_named(bad)], [bad], [bad])
    page = Page(render(PageView(bad, bad, [(bad, bad, bad)], [part], {bad: bad})))
    assert len(page.of("script")) == 3  # what the page does, a map's data, and the names of clusters
    assert page.of("img") == []
    assert page.words.count(bad) >= 18


def test_a_map_adds_at_most_thirty_kilobytes_to_a_page_and_none_to_one_without() -> None:
    dot = SampleMap("", "", np.zeros((1, 2)), np.array([[0]]))
    sizes = [
        len(render(PageView("P", parts=[PagePart("map", "Map", figures=figures)])).encode()) for figures in ([], [dot])
    ]
    assert sizes[1] - sizes[0] < 30_000
    assert "plane" not in render(comparison()).partition("<script>")[2]
