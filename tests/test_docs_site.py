"""The pages become a site without a warning, and it needs no other place to be read."""

import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from sphinx.cmd.build import main as sphinx_build

import forked
from fedkin.experiment import registry

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]
NOTEBOOKS = {
    "tutorials/digits-over-ten-clients": 3,
    "tutorials/flower-app": 0,
    "tutorials/hospital-tables": 0,
    "tutorials/own-method": 1,
    "tutorials/own-network": 1,
    "tutorials/three-machines": 0,
}
"""By page, how many pictures its code draws at least."""


def built(folder: Path, *settings: str) -> Path:
    """The site, in a new folder, if there is nothing to warn of."""
    words = ["-W", "--keep-going", "-n", "-q", *settings, str(ROOT / "docs"), str(folder / "html")]
    code, _, errors = forked.Program(ROOT, folder / "log", sphinx_build, words).ended(900)
    assert code == 0, errors
    return folder / "html"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All pages, as `make docs` builds them: notebooks without what they print."""
    return built(tmp_path_factory.mktemp("docs"))


@pytest.fixture(scope="module")
def whole_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with what notebooks print, which takes three times as long."""
    return built(tmp_path_factory.mktemp("docs"), "-D", "nb_execution_mode=cache")


@pytest.mark.pages
def test_the_site_has_a_page_for_everything(site: Path) -> None:
    pages = [page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if not (site / page).exists()] == []
    menu = (site / "index.html").read_text()
    assert [name for name in registry.METHODS if f'href="methods/{name}.html"' not in menu] == []


def test_every_notebook_is_known() -> None:
    pages = (ROOT / "docs").rglob("*.md")
    made = [*(page for page in pages if "mystnb" in page.read_text()[:40]), *(ROOT / "docs").rglob("*.ipynb")]
    assert {str(page.relative_to(ROOT / "docs").with_suffix("")) for page in made} == set(NOTEBOOKS)


@pytest.mark.slow
def test_the_notebook_of_a_federation_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Server and sites are processes on loopback, which its last cell stops."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    notebook = nbformat.read(ROOT / "docs" / "tutorials" / "three-machines.ipynb", 4)
    known = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    NotebookClient(notebook, timeout=900, kernel_name="python3").execute()
    found = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert [bool(outputs) for outputs in found] == [bool(outputs) for outputs in known]
    assert found[-2] == known[-2]  # the clusters


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_shows_what_it_made(whole_site: Path, name: str) -> None:
    page = (whole_site / f"{name}.html").read_text()
    pictures = re.findall(r'src="\.\./(_images/\w+\.png)"', page)
    assert len(pictures) >= NOTEBOOKS[name]
    assert page.count('class="cell_output') >= 3
    assert all((whole_site / picture).stat().st_size > 1000 for picture in pictures)


@pytest.mark.pages
def test_the_reference_lists_every_parameter(site: Path) -> None:
    """Of a method, one of its own and one that it shares; and what an estimator inherits, on its own page."""
    pages = {
        name: (site / "api" / "estimators" / f"{name}.html").read_text() for name in ("KinGraph", "OCFL", "FedOpt")
    }
    assert "micro_cluster" in pages["KinGraph"]
    assert "smallest_cluster" in pages["OCFL"]
    assert "server_learning_rate" in pages["FedOpt"]
    lists = {"methods/afcl": "Initial number of seeds", "scenarios": 'id="own-class"', "cli": "fedkin federation init"}
    assert [name for name, shown in lists.items() if shown not in (site / f"{name}.html").read_text()] == []
    shared = {"KinGraph": ["predict", "transform", "describe", "cut"], "OCFL": ["predict_proba", "assign", "metrics_"]}
    for name, functions in shared.items():
        assert [one for one in functions if f'id="fedkin.{name}.{one}"' not in pages[name]] == []
        assert "client_names_" in pages[name]
        assert "random_state" in pages[name]


@pytest.mark.pages
def test_the_site_can_be_read_without_a_network(site: Path) -> None:
    """No script, style, font or picture comes from elsewhere."""
    loaded = re.compile(r'<(?:script|img|iframe)[^>]*\ssrc="(?:https?:)?//|<link[^>]*\shref="(?:https?:)?//')
    assert [page.name for page in site.rglob("*.html") if loaded.search(page.read_text())] == []
    styles = [sheet.name for sheet in site.rglob("*.css") if re.search(r"url\(['\"]?(?:https?:)?//", sheet.read_text())]
    assert styles == []
