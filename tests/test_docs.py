"""The documentation does what it says: its examples run, its links lead somewhere, its table of imports holds."""

import ast
import re
import shlex
import sys
from pathlib import Path

import pytest

from fedkin import registry
from fedkin.cli import main
from fedkin.config import load_config

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(python|toml|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
QUICK = {
    "fedcref": ["initial=kmeans", "local_epochs=1", "rounds=1", "min_steps=0", "max_iterations=1"],
    "kin-graph": [],
    "kfed": [],
    "embedding": ["rounds=2", "local_epochs=1", "pretraining_rounds=1"],
}
"""What has each method's examples done in a moment."""


def examples(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


@pytest.mark.parametrize("page", [page for page in PAGES if examples(page)], ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, in one folder: Python, files (their first line is ``# name``), and `fedkin` commands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "METHODS", dict(registry.METHODS))
    monkeypatch.setitem(registry._TABLES, "method", registry.METHODS)
    names: dict[str, object] = {"__name__": "example"}
    for language, text in examples(page):
        file = re.match(r"# (\S+\.(?:py|toml))\n", text)
        if file:
            Path(file[1]).write_text(text)
            monkeypatch.delitem(sys.modules, Path(file[1]).stem, raising=False)
        elif language == "python":
            exec(compile(text, str(page), "exec"), names)
        elif language == "sh":
            for line in text.splitlines():
                run_command(line)


def run_command(line: str) -> None:
    program, *arguments = shlex.split(line, comments=True) or [""]
    if program != "fedkin":
        return
    if arguments[0] == "run":
        settings = QUICK.get(load_config(arguments[1]).method_name, ["rounds=2", "local_epochs=1"])
        arguments += [part for setting in settings for part in ("--set", f"method.{setting}")]
        arguments += ["--set", "evaluation.map=pca"]
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert not end.value.code, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("file", sorted((ROOT / "experiments").glob("*.toml")), ids=lambda file: file.name)
def test_experiments_are_understood(file: Path) -> None:
    assert load_config(file).method_name in registry.METHODS


def test_imports_run_downward() -> None:
    """Every module imports only what the table in docs/architecture.md allows it to."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = re.findall(r"^\| `(\w+)` \| (.*?) \|$", page, re.MULTILINE)
    allowed = {name: {name, *re.findall(r"`(\w+)`", others)} for name, others in table}
    source = ROOT / "src" / "fedkin"
    wrong = []
    for file in sorted(source.rglob("*.py")):
        part = file.relative_to(source).parts[0].removesuffix(".py")
        for imported in imports(file):
            if part not in ("__init__", "__main__") and imported not in allowed.get(part, set()):
                wrong.append(f"{part} imports {imported}")
    assert wrong == []


def imports(file: Path) -> set[str]:
    """Parts of fedkin that `file` imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "fedkin":
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedkin."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {name.name.split(".")[1] for name in node.names if name.name.startswith("fedkin.")}
    return found
