"""The package: what it holds and needs, the files around it, and that its wheel works on its own."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from fedkin import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w.-]", one)[0] for one in requirements}


@pytest.mark.slow
def test_the_wheel_runs_from_a_bare_environment(tmp_path: Path) -> None:
    """Needs a package index, as continuous integration has one."""
    done = subprocess.run([ROOT / ".ci" / "package", tmp_path], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("The package works: fedkin-")


def test_the_base_is_light() -> None:
    base = names(PROJECT["dependencies"])
    extras = PROJECT["optional-dependencies"]
    assert base.isdisjoint({"datasets", "pyarrow", "flwr", "matplotlib", "scikit-image", "typer"})
    users = {name for name in extras if name not in ("dev", "docs", "all")}
    (everything,) = extras["all"]
    assert everything == f"fedkin[{','.join(name for name in extras if name in users)}]"
    assert {one for name in users for one in names(extras[name])} - names(extras["dev"]) <= {
        "matplotlib",
        "flwr-datasets",
        "sentence-transformers",
        "timm",
    }


def test_extras_in_sentences_exist() -> None:
    """Those that the code asks for by `require`, and those that the page of the installation lists."""
    asked = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r'\brequire\([^)]*"([\w-]+)"\)|fedkin\[([\w-]+)\]', path.read_text())
        for name in name
        if name
    }
    extras = {name for name in PROJECT["optional-dependencies"] if name not in ("dev", "docs")}
    assert asked <= extras
    page = (ROOT / "docs" / "get-started.md").read_text()
    assert set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)) == extras


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)
    assert versions[0] in (__version__, "Unreleased")
    assert __version__ in versions
    sections = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= sections
