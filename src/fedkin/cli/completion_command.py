"""Command that lets a shell complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from fedkin.cli.app import app
from fedkin.cli.help_pages import Argument

_SHELLS = ("bash", "zsh", "fish")


@app.command()
@click.argument("shell", cls=Argument, type=click.Choice(_SHELLS), help="The shell that the script is for.")
def completion(shell: str) -> None:
    """Print a script for the shell's completion.

    \b
    bash:  eval "$(fedkin completion bash)"  in ~/.bashrc
    zsh:   eval "$(fedkin completion zsh)"   in ~/.zshrc
    fish:  fedkin completion fish | source   in ~/.config/fish/config.fish
    """  # noqa: D301  # \b is click's mark for lines that stay as they are
    made = get_completion_class(shell)
    assert made is not None  # click has all of _SHELLS
    script = made(app, {}, "fedkin", "_FEDKIN_COMPLETE")
    click.echo(script.source_template % script.source_vars())
