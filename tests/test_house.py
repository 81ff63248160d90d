"""The house: files that can be read in one go, each with a name of its own."""

import ast
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "fedkin"
USUAL, MOST = 300, 350


def lengths() -> dict[str, int]:
    return {path.relative_to(SOURCE).as_posix(): len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}


def test_files_are_rarely_long_and_never_very() -> None:
    found = lengths()
    assert {name: length for name, length in found.items() if length > MOST} == {}
    assert sum(length > USUAL for length in found.values()) < len(found) / 40


def test_nothing_lies_loose_and_names_are_unique() -> None:
    """A stranger who searches a file or a public class finds one."""
    assert {file.name for file in SOURCE.glob("*.py")} == {"__init__.py", "__main__.py"}
    files = [file for file in SOURCE.rglob("*.py") if file.name != "__init__.py"]
    assert repeated(file.name for file in files) == []
    classes = [
        node.name for file in files for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)
    ]
    assert repeated(name for name in classes if not name.startswith("_")) == []


def repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
