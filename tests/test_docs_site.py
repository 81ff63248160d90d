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
NOTEBOOKS = {"flower-app", "hospital-tables", "own-network", "three-machines"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All pages, as `make docs` builds them, if there is nothing to warn of: notebooks without what they print."""
    folder = tmp_path_factory.mktemp("docs")
    words = ["-W", "--keep-going", "-n", "-q", str(ROOT / "docs"), str(folder / "html")]
    code, _, errors = forked.Program(ROOT, folder / "log", sphinx_build, words).ended(900)
    assert code == 0, errors
    return folder / "html"


@pytest.mark.pages
def test_the_site_has_a_page_for_everything(site: Path) -> None:
    pages = [page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if not (site / page).exists()] == []
    menu = (site / "index.html").read_text()
    assert [name for name in registry.METHODS if f'href="methods/{name}.html"' not in menu] == []


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


@pytest.mark.pages
def test_the_reference_lists_parameters_and_what_estimators_inherit(site: Path) -> None:
    page = (site / "api" / "estimators" / "KinGraph.html").read_text()
    assert "micro_cluster" in page
    assert [name for name in ("predict", "describe", "cut") if f'id="fedkin.KinGraph.{name}"' not in page] == []
    lists = {"methods/afcl": "Initial number of seeds", "scenarios": 'id="own-class"', "cli": "fedkin federation init"}
    assert [name for name, shown in lists.items() if shown not in (site / f"{name}.html").read_text()] == []


@pytest.mark.pages
def test_the_site_can_be_read_without_a_network(site: Path) -> None:
    """No script, style, font or picture comes from elsewhere."""
    loaded = re.compile(r'<(?:script|img|iframe)[^>]*\ssrc="(?:https?:)?//|<link[^>]*\shref="(?:https?:)?//')
    assert [page.name for page in site.rglob("*.html") if loaded.search(page.read_text())] == []
    styles = [sheet.name for sheet in site.rglob("*.css") if re.search(r"url\(['\"]?(?:https?:)?//", sheet.read_text())]
    assert styles == []
