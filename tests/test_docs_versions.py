"""`make docs-versions` builds every release beside the checkout, each by its own pages and code."""

import json
import runpy
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VERSIONS = runpy.run_path(str(ROOT / "docs" / "make_versions.py"))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Three commits with docs of two pages at most, which take their title from the code beside them; four tags."""
    folder = tmp_path / "repository"
    (folder / "docs").mkdir(parents=True)
    (folder / "src").mkdir()
    git(folder, "init", "--quiet")
    (folder / "README").write_text("no documentation yet")
    commit(folder, "v0.1.0")
    (folder / "docs" / "conf.py").write_text("import titled\n\nproject = titled.TITLE\nhtml_theme = 'basic'\n")
    (folder / "docs" / "index.rst").write_text("Start\n=====\n")
    for tag, title in [("v0.9.0", "nine"), ("v0.10.0", "ten"), ("v0.11.0rc1", "eleven")]:
        (folder / "src" / "titled.py").write_text(f"TITLE = {title!r}\n")
        commit(folder, tag)
    git(folder, "tag", "vacation")
    (folder / "src" / "titled.py").write_text("TITLE = 'checkout'\n")
    return folder


def git(folder: Path, *words: str) -> None:
    own = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    subprocess.run(["git", "-C", str(folder), *own, *words], check=True, capture_output=True)


def commit(folder: Path, tag: str) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", tag)
    git(folder, "tag", tag)


@pytest.mark.pages
def test_every_release_with_docs_is_built_once_and_listed_newest_first(repository: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "v0.9.0").mkdir()
    (site / "v0.9.0" / "index.html").write_text("built before")
    names = ["latest", "v0.11.0rc1", "v0.10.0", "v0.9.0"]
    assert VERSIONS["write_site"](repository, site) == names
    listed = json.loads((site / "versions.json").read_text())
    assert listed == [{"version": name, "url": f"{name}/"} for name in names]
    assert "checkout" in (site / "latest" / "index.html").read_text()
    assert "eleven" in (site / "v0.11.0rc1" / "index.html").read_text()
    assert "ten" in (site / "v0.10.0" / "index.html").read_text()
    assert (site / "v0.9.0" / "index.html").read_text() == "built before"
    assert 'url=v0.10.0/"' in (site / "index.html").read_text()  # the newest that is no candidate
