"""What a shell completes."""

import pytest
from click.shell_completion import ShellComplete

from fedkin.cli import app


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("fedkin rep", ["reproduce"]),
        ("fedkin run kf", ["kfed"]),
        ("fedkin predict run wi", ["wine"]),
        ("fedkin run kfed --dry", ["--dry-run"]),
    ],
)
def test_a_shell_completes_commands_options_and_names(words: str, completed: list[str]) -> None:
    _, *before, last = words.split()
    made = ShellComplete(app, {}, "fedkin", "_FEDKIN_COMPLETE")
    assert [item.value for item in made.get_completions(before, last)] == completed
