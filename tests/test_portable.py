"""Nothing in the package is of one system alone: no modules of POSIX, no text in the encoding of a machine."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "fedkin"
OF_POSIX = {"fcntl", "grp", "pty", "pwd", "resource", "selectors", "syslog", "termios", "tty"}
"""Modules that Windows lacks; its `selectors` selects no pipes."""
NOWHERE_ELSE = {"chown", "fork", "forkpty", "getuid", "killpg", "mkfifo", "sched_getaffinity", "setsid"}
"""Functions of `os` that Windows lacks, which are asked for before they are called."""


@cache
def files() -> dict[str, ast.Module]:
    """Syntax trees of files that name anything of that; all would take seconds."""
    texts = {str(path.relative_to(SOURCE)): path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
    words = re.compile(rf"\b({'|'.join(sorted(OF_POSIX | NOWHERE_ELSE))}|open|read_text|write_text)\b")
    return {file: ast.parse(text) for file, text in texts.items() if words.search(text)}


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def test_no_module_of_one_system_is_imported() -> None:
    found = [
        (file, module)
        for file, tree in files().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in ([node.module] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names])
        if module in OF_POSIX
    ]
    assert found == []


def test_functions_of_one_system_are_asked_for_first() -> None:
    for file, tree in files().items():
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & NOWHERE_ELSE
        asked = {
            call.args[1].value
            for call in calls(tree)
            if isinstance(call.func, ast.Name) and call.func.id == "hasattr" and isinstance(call.args[1], ast.Constant)
        }
        assert used <= asked, file


def test_text_files_have_an_encoding() -> None:
    without = [(file, call.lineno) for file, tree in files().items() for call in calls(tree) if lacks_encoding(call)]
    assert without == []


def lacks_encoding(call: ast.Call) -> bool:
    named = {keyword.arg for keyword in call.keywords}
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("read_text", "write_text"):
        return "encoding" not in named
    if isinstance(call.func, ast.Attribute) and call.func.attr == "open":
        if isinstance(call.func.value, ast.Name) and call.func.value.id in ("gzip", "os", "Image", "image"):
            return False
        mode = call.args[0] if call.args else None
    elif isinstance(call.func, ast.Name) and call.func.id == "open":
        mode = call.args[1] if len(call.args) > 1 else None
    else:
        return False
    return "encoding" not in named and not (isinstance(mode, ast.Constant) and "b" in mode.value)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_a_letter_that_the_terminal_lacks_ends_no_command(encoding: str) -> None:
    """What is listed has letters beyond ASCII, such as quotes and signs."""
    words = [sys.executable, "-c", "import click; from fedkin.cli.app import app, main; import sys\n"
             "@app.command()\ndef odd(): click.echo('≥ kin – Łódź')\nmain(['odd'])"]  # fmt: skip
    done = subprocess.run(words, capture_output=True, env=os.environ | {"PYTHONIOENCODING": encoding})
    assert done.returncode == 0, done.stderr
    assert b" kin " in done.stdout
