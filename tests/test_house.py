"""The house: files that can be read in one go, each with a name of its own."""

from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "fedkin"
USUAL, MOST = 300, 350


def lengths() -> dict[str, int]:
    return {path.relative_to(SOURCE).as_posix(): len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}


def test_files_are_rarely_long_and_never_very() -> None:
    found = lengths()
    assert {name: length for name, length in found.items() if length > MOST} == {}
    assert sum(length > USUAL for length in found.values()) < len(found) / 40


def test_a_files_name_stands_once() -> None:
    names = Counter(name.rpartition("/")[2] for name in lengths() if not name.endswith("__.py"))
    assert [name for name, times in names.items() if times > 1] == []
