"""What a page does in a browser, as wide as a phone: Chromium without a window, told from the command line."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fedkin.report.page import render
from page_views import comparison, full_view, reproduction

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--hide-scrollbars"),
    *("--window-size=1280,900", "--virtual-time-budget=12000", "--dump-dom"),
]
WIDTH = 375
PAGES = {
    "run": render(full_view()),
    "comparison": render(comparison()),
    "reproduction": render(reproduction()),
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the checks of in_browser.js found by page, and what the browser wrote to its console."""
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        pytest.skip("no Chromium was found")
    folder = tmp_path_factory.mktemp("browser")
    frames = [
        f'<iframe name="{name}" style="width:{WIDTH}px;height:800px;border:0" srcdoc="{html.escape(page)}"></iframe>'
        for name, page in PAGES.items()
    ]
    checks = Path(__file__).with_name("in_browser.js").read_text()
    (folder / "all.html").write_text(f"<!doctype html>{''.join(frames)}<pre></pre><script>{checks}</script>")
    command = [browser, *OPTIONS, f"--user-data-dir={folder / 'profile'}", (folder / "all.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found = re.search(r"<pre>(.*?)</pre><script>", done.stdout.split("</iframe>")[-1], re.DOTALL)
    assert found, done.stderr
    return {**json.loads(html.unescape(found[1])), "console": re.findall(r"CONSOLE.*", done.stderr)}


def test_nothing_goes_wrong_in_the_console(seen: dict[str, Any]) -> None:
    assert len(seen["console"]) == 1
    assert "checks are done" in seen["console"][0]


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_shows_the_whole_width(seen: dict[str, Any], name: str) -> None:
    assert seen[name]["width"] == WIDTH
    assert seen[name]["scrolls"] == WIDTH
    assert seen[name]["beyond"] == []


@pytest.mark.parametrize("name", PAGES)
def test_the_first_column_stays_while_the_rest_scrolls(seen: dict[str, Any], name: str) -> None:
    assert seen[name]["scrolled"] or name == "run"
    assert all(before == after for before, after in seen[name]["scrolled"])


@pytest.mark.parametrize("name", PAGES)
def test_pointing_at_a_curve_shows_the_nearest_step(seen: dict[str, Any], name: str) -> None:
    assert seen[name]["hovered"]
    for found in seen[name]["hovered"]:
        assert found["shown"] == found["expected"]
        assert found["guide"] == pytest.approx(found["place"], abs=1.0)
        assert found["circles"] == found["values"] > 0
        assert 0 <= found["left"] <= found["right"] <= WIDTH
        assert found["clear"]


def test_a_map_is_recut_filtered_and_searched(seen: dict[str, Any]) -> None:
    steps = seen["run"]["map"]
    assert len(set(steps["coarser"]["looks"])) == 1
    assert len(set(steps["finer"]["looks"])) == 3
    assert len(set(steps["begin"]["looks"])) == 2
    assert (steps["begin"]["title"], steps["begin"]["said"][1]) == ("2 clusters (found)", "Cluster 1: young.")
    assert steps["finer"]["title"] == "3 clusters"
    assert [steps[name]["shown"] for name in ("begin", "client", "cluster")] == [9, 3, 4]
    assert {look.split()[0] for look in steps["confidence"]["looks"]} == {"graded"}
    assert steps["search"]["hits"] == 1
    assert steps["search"]["tip"] == "Cluster 0\nnorth, 60 % of the cluster\npatient p4\nconfidence 50 %"
    assert steps["first"].startswith("Cluster 0\nnorth")


def test_a_map_zooms_and_moves_by_keyboard(seen: dict[str, Any]) -> None:
    near, moved, whole = (seen["run"]["map"][name] for name in ("near", "moved", "whole"))
    assert near[2] < whole[2] == 400
    assert moved[0] > near[0]
    assert moved[1:] == near[1:]


@pytest.mark.parametrize("way", ["copied", "selected"])
def test_a_table_is_copied_as_tab_separated_values(seen: dict[str, Any], way: str) -> None:
    text = seen["reproduction"][way][0]
    rows = [line.split("\t") for line in text.split("\n")]
    assert rows[0][:5] == ["method and scenario", "MNIST", "MNIST (beside)", "Fashion-MNIST", "Fashion-MNIST (beside)"]
    assert rows[1][:3] == ["FedAvg, IID", "96.40 ± 0.41", "paper 96.10"]
    assert [len(row) for row in rows] == [11] * 13
    assert seen["comparison"][way][0].split("\n")[1].split("\t")[:4] == ["kin-graph", "10", "0.981", "± 0.004"]


def test_commands_are_copied_as_they_are(seen: dict[str, Any]) -> None:
    expected = "fedkin reproduce ocfl --table 2 --seeds 5\nfedkin resume runs/ocfl"
    assert expected in seen["reproduction"]["copied"]
