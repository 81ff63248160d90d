"""Command-line program ``fedkin``, and how its commands end.

Exit codes are `DONE`, `FAILED`, `REFUSED` and `INTERRUPTED`. Any error that a user can cause ends with one sentence on
stderr and `REFUSED`; a traceback and `FAILED` mean a bug in fedkin.
"""

from __future__ import annotations

import difflib
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NoReturn

import click
from click.shell_completion import get_completion_class

from fedkin import __version__
from fedkin.cli.help_pages import Argument, Group
from fedkin.cli.other_programs import SENTENCES, key_of, key_of_method
from fedkin.experiment.terminal_tables import PlainStream, in_shell

DONE, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130
"""How a command ends: done; failed by a fault of fedkin's; refused in a sentence; interrupted by Ctrl-C."""


@click.group(
    cls=Group, context_settings={"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100}
)
@click.version_option(__version__, "-V", "--version", message="fedkin %(version)s", help="Show the version and exit.")
def app() -> None:
    """Federated clustering: discovers clusters of clients or samples, without moving the data."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line of this process, or the given arguments; ends in `SystemExit`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a letter that the terminal or the pipe has no code for ends nothing
            stream.reconfigure(errors="replace")
    with _plain_terminal():
        _run(arguments)


def _run(arguments: list[str] | None) -> NoReturn:
    try:
        app.main(arguments, prog_name="fedkin", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        raise SystemExit(REFUSED) from None
    except click.UsageError as error:
        stop(_sentence(error, sys.argv[1:] if arguments is None else arguments), REFUSED)
    except click.Abort:
        stop("Interrupted.", INTERRUPTED)
    except BrokenPipeError:  # who reads the output has read enough
        sys.stdout = None  # nothing is left to be flushed
        raise SystemExit(FAILED) from None
    except (OSError, ValueError) as error:
        from fedkin.core.errors import FedkinError

        if isinstance(error, OSError):
            place = f" ({error.filename})" if error.filename else ""
            stop(f"{error.strerror or error}{place}.", REFUSED)
        if isinstance(error, FedkinError):
            stop(str(error), REFUSED)
        raise
    raise SystemExit(DONE)


@contextmanager
def _plain_terminal() -> Iterator[None]:
    """Write to terminals without control characters of others; a context manager."""
    plain = {name: PlainStream(raw) for name in ("stdout", "stderr") if (raw := getattr(sys, name)).isatty()}
    try:
        for name, stream in plain.items():
            setattr(sys, name, stream)
        yield
    finally:
        for name, stream in plain.items():
            if getattr(sys, name) is stream:
                setattr(sys, name, stream.raw)


@app.command("help")
@click.argument(
    "words",
    cls=Argument,
    metavar="[COMMAND]...",
    nargs=-1,
    help="A command, such as run or federation init; without any, all are listed.",
)
@click.pass_context
def show_help(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a command."""
    shown = ctx.find_root()
    for word in words:
        if not isinstance(shown.command, click.Group):
            raise click.UsageError(f"'{shown.command_path}' has no commands below it.", shown)
        _, found, _ = shown.command.resolve_command(shown, [word])
        assert found is not None  # else it has raised
        shown = click.Context(found, shown, word)
    click.echo(shown.get_help())


@app.command()
@click.argument(
    "shell", cls=Argument, type=click.Choice(["bash", "zsh", "fish"]), help="The shell that the script is for."
)
def completion(shell: str) -> None:
    """Print a script for the shell's completion.

    \b
    bash:  eval "$(fedkin completion bash)"  in ~/.bashrc
    zsh:   eval "$(fedkin completion zsh)"   in ~/.zshrc
    fish:  fedkin completion fish | source   in ~/.config/fish/config.fish
    """  # noqa: D301  # \b is click's mark for lines that stay as they are
    made = get_completion_class(shell)
    assert made is not None  # click has all three
    script = made(app, {}, "fedkin", "_FEDKIN_COMPLETE")
    click.echo(script.source_template % script.source_vars())


@contextmanager
def interruptible(how: str, written: Path | None = None) -> Iterator[None]:
    """End on Ctrl-C with a sentence on how to continue, or that nothing was `written` yet; a context manager."""
    try:
        yield
    except KeyboardInterrupt:
        if written is None or written.exists():
            stop(f"Interrupted; {how}.", INTERRUPTED)
        stop("Interrupted before anything was written.", INTERRUPTED)


def resumable(folder: Path) -> AbstractContextManager[None]:
    """Report on Ctrl-C how to resume the run in `folder`; a context manager."""
    return interruptible(f"resume with `fedkin resume {folder}`", folder / "config.toml")


def warn(sentence: str) -> None:
    """Print a sentence on stderr."""
    print(f"fedkin: {in_shell(sentence)}", file=sys.stderr)


def stop(sentence: str, code: int) -> NoReturn:
    """Print a sentence on stderr, and exit with `code`."""
    warn(sentence)
    raise SystemExit(code)


def _sentence(error: click.UsageError, words: Sequence[str]) -> str:
    """Describe a command-line error, with the nearest existing option and how to get help."""
    said, hint = error.format_message().rstrip("."), ""
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        options = [name for each in error.ctx.command.params for name in each.opts]
        said = f"No such option '{error.option_name}'"
        if known := SENTENCES.get(error.option_name.lstrip("-")):
            hint = f"{known} "
        elif key := key_of_method(error, words):
            hint = f"It is set by --set {key}=VALUE. "
        elif near := difflib.get_close_matches(error.option_name, options, n=1, cutoff=0.7):
            said += f"; did you mean '{near[0]}'?"
        elif key := key_of(error):
            hint = f"It is set by --set {key}=VALUE. "
        elif "--set" in options:
            hint = "Any key of the experiment is set by --set KEY=VALUE. "
    elif "unexpected extra argument" in said and error.ctx is not None and "methods" in error.ctx.params:
        hint = (
            "It takes data and makes the runs itself; `fedkin costs RUN RUN` compares what finished runs cost. "
            if any((Path(word) / "config.toml").is_file() for word in words)
            else "Names have commas between them, as in --methods kfed,kin-graph. "
        )
    path = error.ctx.command_path if error.ctx else "fedkin"
    return f"{said}{'' if said.endswith('?') else '.'} {hint}See `{path} --help`."
