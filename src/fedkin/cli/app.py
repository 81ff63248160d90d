"""The program, and how its commands end.

Bad input, a full disk and the like end with one sentence on stderr and exit code 2; Ctrl-C ends with 130.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from fedkin import __version__

app = typer.Typer(
    name="fedkin",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Argument(help="Folder of a run.", show_default=False)]


def _print_version(asked: bool) -> None:
    if asked:
        print(f"fedkin {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Federated clustering: discovers clusters of clients or samples, without moving the data."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line of this process, or the given arguments; ends in `SystemExit`."""
    try:
        app(arguments, prog_name="fedkin")
    except (OSError, ValueError) as error:
        from fedkin.core.errors import FedkinError

        if isinstance(error, OSError):
            place = f" ({error.filename})" if error.filename else ""
            stop(f"{error.strerror or error}{place}.", 2)
        if isinstance(error, FedkinError):
            stop(str(error), 2)
        raise


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Within it, Ctrl-C leaves a run that can be resumed."""
    try:
        yield
    except KeyboardInterrupt:
        if (folder / "config.toml").exists():
            stop(f"Interrupted; resume with `fedkin resume {folder}`.", 130)
        stop("Interrupted before anything was written.", 130)


def stop(sentence: str, code: int) -> NoReturn:
    """End with a sentence on stderr."""
    print(f"fedkin: {sentence}", file=sys.stderr)
    raise SystemExit(code)
