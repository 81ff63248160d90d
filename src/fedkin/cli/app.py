"""Command-line program ``fedkin``, and how its commands end.

Exit codes are `DONE`, `FAILED`, `REFUSED` and `INTERRUPTED`. Any error that a user can cause ends with one sentence on
stderr and `REFUSED`; a traceback and `FAILED` mean a bug in fedkin.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from fedkin import __version__
from fedkin.cli.help_pages import Group
from fedkin.core.errors import ALIASES, SHELL, FedkinError, at_door, meant_by
from fedkin.experiment.terminal_tables import PlainStream

if TYPE_CHECKING:
    from fedkin.core.runner import Progress
    from fedkin.experiment.run import RunOutcome

DONE, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130
"""How a command ends: done; failed by a fault of fedkin's; refused in a sentence; interrupted by Ctrl-C."""


@click.group(
    cls=Group, context_settings={"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100}
)
@click.version_option(__version__, "-V", "--version", message="fedkin %(version)s", help="Show the version and exit.")
def app() -> None:
    """Federated clustering: discovers clusters of clients or samples, without moving the data.

    In bash, eval "$(_FEDKIN_COMPLETE=bash_source fedkin)" completes commands; in zsh and fish alike.
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line of this process, or the given arguments; ends in `SystemExit`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a letter that the terminal or the pipe has no code for ends nothing
            stream.reconfigure(errors="replace")
    with _plain_terminal(), at_door(SHELL):
        try:
            app.main(arguments, prog_name="fedkin", standalone_mode=False)
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            raise SystemExit(REFUSED) from None
        except click.UsageError as error:
            stop(_wrong_usage(error), REFUSED)
        except click.Abort:
            stop("Interrupted.", INTERRUPTED)
        except BrokenPipeError:  # who reads the output has read enough
            sys.stdout = None  # nothing is left to be flushed
            raise SystemExit(FAILED) from None
        except FedkinError as error:
            stop(str(error), REFUSED)
        except OSError as error:
            stop(f"{error.strerror or error}{f' ({error.filename})' if error.filename else ''}.", REFUSED)
    raise SystemExit(DONE)


def _wrong_usage(error: click.UsageError) -> str:
    """Describe a command-line error, and how to get help."""
    path = error.ctx.command_path if error.ctx else "fedkin"
    takes = {name.lstrip("-"): name for each in error.ctx.command.params for name in each.opts} if error.ctx else {}
    if isinstance(error, click.NoSuchOption):
        key = error.option_name.lstrip("-").replace("-", "_")
        meant = "clusters" if "n_clusters" in ALIASES.get(key, (key,)) else meant_by(key, takes)
        near = [takes[meant]] if meant in takes else []
        error = click.NoSuchOption(error.option_name, possibilities=near, ctx=error.ctx)
    text = error.format_message()
    if isinstance(error, click.NoSuchOption) and "set" in takes and not error.possibilities:
        option = ALIASES.get(key, (key,))[0]
        text += f" Other keys are set as by --set method.{option}=VALUE or --set data.{option}=VALUE."
    return f"{text}{'' if text.endswith(('.', '?', ')')) else '.'} See `{path} --help`."


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


@contextmanager
def interruptible(how: str, written: Path | None = None) -> Iterator[None]:
    """End on Ctrl-C with a sentence on how to continue, or that nothing was `written` yet; a context manager."""
    try:
        yield
    except KeyboardInterrupt:
        if written is None or written.exists():
            stop(f"Interrupted; {how}.", INTERRUPTED)
        stop("Interrupted before anything was written.", INTERRUPTED)


def show(folder: Path, make: Callable[[Progress], RunOutcome | None], as_json: bool, quiet: bool) -> RunOutcome | None:
    """Make a run into `folder` with a progress bar, and print what it found; say on Ctrl-C how to resume it."""
    with interruptible(f"resume with `fedkin resume {folder}`", folder / "config.toml"):
        from fedkin.engines.local import keep_freed_memory
        from fedkin.experiment.outcome import show_outcome
        from fedkin.experiment.terminal import show_progress

        keep_freed_memory()
        with show_progress(quiet) as progress:
            outcome = make(progress)
        if outcome is not None:
            show_outcome(outcome, as_json, quiet)
        return outcome


def stop(sentence: str, code: int) -> NoReturn:
    """Print a sentence on stderr, and exit with `code`."""
    print(f"fedkin: {sentence}", file=sys.stderr)
    raise SystemExit(code)
