from __future__ import annotations

import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from fedkin.core.errors import FedkinError
from fedkin.report import (
    Band,
    Bars,
    ClientEvent,
    ClusterTable,
    Curve,
    GraphNode,
    GraphView,
    Mark,
    PagePart,
    PageView,
    Profiles,
    ResultTable,
    RunView,
    TableCell,
    Timeline,
    write_report,
)
from fedkin.report.write import render, render_page
from page_views import COLUMNS, comparison, full_view, reproduction


class Page(HTMLParser):
    """A strict reader: every element is closed in order; keeps attributes, headings and visible text."""

    void = frozenset({"meta", "br", "img"})

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
    "nothing": render(RunView(title="Nothing")),
    "one cluster": render(full_view(1)),
    "run": render(full_view()),
    "sixty clusters": render(full_view(60)),
    "no results": render_page(PageView("Nothing")),
    "comparison": render_page(comparison()),
    "reproduction": render_page(reproduction()),
}


@pytest.mark.parametrize("source", PAGES.values(), ids=PAGES)
def test_page_is_well_formed_and_loads_nothing(source: str) -> None:
    page = Page(source)
    assert not re.search(r"https?:|//[a-z]|@import", re.sub(r"base64,[^)]*", "", source))
    addresses = [a.get("href") or a.get("src") or "" for _, a in page.elements if "href" in a or "src" in a]
    anchors = {a["id"] for a in page.of("section")}
    assert {address.removeprefix("#") for address in addresses} <= anchors
    assert all(found.startswith("data:image/png;base64,") for found in re.findall(r"url\((.{30})", source))


@pytest.mark.parametrize("source", [PAGES["run"], PAGES["comparison"], PAGES["reproduction"]])
def test_headings_descend_one_level_at_a_time_and_figures_are_named(source: str) -> None:
    page = Page(source)
    levels = [int(tag[1]) for tag, _ in page.elements if tag in ("h1", "h2", "h3")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(a.get("aria-label") for _, a in page.elements if a.get("role") in ("img", "region"))
    assert all(a.get("aria-label") for a in page.of("button"))
    assert all(a.get("scope") in ("col", "row") for a in page.of("th"))
    assert len(page.of("button")) == len(page.of("table")) + len(page.of("pre")) > 0


def test_every_part_of_the_view_is_written_in_words() -> None:
    words = " ".join(Page(render(full_view())).words)
    for expected in [
        "A run",
        "What it found.",
        "across 3 clients",
        "Higher is better.",
        "Tied.",
        "Together.",
        "Who holds what.",
        "Means.",
        "Four bits each.",
        "No guarantee.",
        "Falling.",
        "went over",
        "Two phases.",
    ]:
        assert expected in words
    for expected in ["Client 2 was missing once.", "method.epochs", "5 samples from 1 client", "Cluster 2", "weight"]:
        assert expected in words


def test_equal_views_give_equal_bytes_whatever_the_order_of_dicts(tmp_path: Path) -> None:
    write_report(tmp_path / "one.html", full_view())
    view = full_view()
    write_report(tmp_path / "two.html", replace(view, settings=dict(reversed(view.settings.items()))))
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_every_part_of_a_page_of_results_is_written_in_words() -> None:
    words = " ".join(Page(PAGES["comparison"]).words)
    for expected in [
        *COLUMNS,
        "kin-graph",
        "0.981",
        "± 0.004",
        "best of its column",
        "One bar stands out.",
        "data.name",
    ]:
        assert expected in words
    assert "within the spread" not in words  # no sign of it is used
    assert "fedkin run kin-graph" in words


def test_results_cannot_break_out_of_the_page() -> None:
    bad = "</script><script>alert('x')</script>\"><img src=x onerror=1>&amp;"
    table = ResultTable(bad, bad, bad, [bad], [(bad, [TableCell(bad, bad, "best", bad)])])
    curve = Curve(bad, bad, [0], {bad: [1.0]}, intervals={bad: [(0.0, 1.0)]}, reference={bad: [1.0], "b": [1.0]})
    bars = Bars(bad, bad, [bad], [1.0], [True], bad, 1.0, bad)
    part = PagePart("a", bad, [bad], [table], [curve], [bars], [bad], [bad])
    page = Page(render_page(PageView(bad, bad, [(bad, bad, bad)], [part], {bad: bad})))
    assert len(page.of("script")) == 1
    assert page.of("img") == []
    assert page.words.count(bad) >= 18


def test_names_cannot_break_out_of_the_page() -> None:
    bad = "</script><script>alert('x')</script>\"><img src=x onerror=1>&amp;"
    view = RunView(
        title=bad,
        lead=bad,
        summary=[(bad, bad, bad)],
        curves=[Curve(bad, bad, [0], {bad: [1.0]}, x_label=bad)],
        graphs=[GraphView(bad, bad, [GraphNode(bad, 0, 1, 0), GraphNode(bad, 1, 1, None)], [(0, 1)])],
        table=ClusterTable([bad], [0], np.array([[1]]), bad),
        profiles=Profiles([bad], [0], np.array([[1.0]]), bad),
        findings=[bad],
        bars=[Bars(bad, bad, [bad], [1.0], [True], bad, 1.0, bad)],
        changes=[ClientEvent(0, bad, [bad], 0, 0)],
        timeline=Timeline([Band(bad, 0, 0)], [Mark(0, bad)], bad),
        notes=[bad],
        settings={bad: {bad: bad}},
    )
    page = Page(render(view))
    assert len(page.of("script")) == 1
    assert page.of("img") == []
    assert page.words.count(bad) >= 12
    assert bad in [a.get("data-client") for _, a in page.elements]


def test_sixty_clusters_and_three_hundred_nodes_stay_small() -> None:
    nodes = [GraphNode(f"client {s}", q, 50, q) for s in range(100) for q in range(3)]
    edges = [(a, b) for a in range(300) for b in range(a) if nodes[a].cluster == nodes[b].cluster][:5000]
    view = replace(full_view(60), graphs=[GraphView("Many", "", nodes, edges)] * 2)
    assert len(render(view).encode()) < 700_000


def test_a_failed_write_is_one_sentence_and_keeps_the_old_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    write_report(path, full_view())
    before = path.read_bytes()

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(FedkinError, match=r"Cannot write .*report\.html: No space left on device"):
        write_report(path, RunView(title="New"))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
