"""Command-line program ``fedkin``, and how its commands end.

Exit codes are `DONE`, `FAILED`, `REFUSED` and `INTERRUPTED`. Any error that a user can cause ends with one sentence on
stderr and `REFUSED`; a traceback and `FAILED` mean a bug in fedkin.
"""

from __future__ import annotations

import difflib
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from fedkin import __version__
from fedkin.cli.help_pages import Group
from fedkin.core.errors import SHELL, FedkinError, at_door
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
    except FedkinError as error:
        stop(str(error), REFUSED)
    except OSError as error:
        stop(f"{error.strerror or error}{f' ({error.filename})' if error.filename else ''}.", REFUSED)
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
        from fedkin.experiment.terminal import show_outcome, show_progress

        keep_freed_memory()
        with show_progress(quiet) as progress:
            outcome = make(progress)
        if outcome is not None:
            show_outcome(outcome, as_json, quiet)
        return outcome


def warn(sentence: str) -> None:
    """Print a sentence on stderr."""
    print(f"fedkin: {sentence}", file=sys.stderr)


def stop(sentence: str, code: int) -> NoReturn:
    """Print a sentence on stderr, and exit with `code`."""
    warn(sentence)
    raise SystemExit(code)


# What a wrong option was probably meant to be.


def _sentence(error: click.UsageError, words: Sequence[str]) -> str:
    """Describe a command-line error, with the nearest existing option and how to get help."""
    wrong, hint = error.format_message().rstrip("."), " "
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        wrong = f"No such option '{error.option_name}'"
        options = [name for each in error.ctx.command.params for name in each.opts]
        near = difflib.get_close_matches(error.option_name, options, n=1, cutoff=0.7)
        name = error.option_name.lstrip("-").replace("-", "_")
        if "--set" in options and (key := _key_called(name, words, not near)):
            hint = f" It is set by --set {key}=VALUE. "
        elif near:
            wrong += f"; did you mean '{near[0]}'?"
        elif "--set" in options:
            hint = " Any key of the experiment is set by --set KEY=VALUE. "
    path = error.ctx.command_path if error.ctx else "fedkin"
    return f"{wrong}{'' if wrong.endswith('?') else '.'}{hint}See `{path} --help`."


def _key_called(name: str, words: Sequence[str], everywhere: bool) -> str | None:
    """Return the key of an experiment that ends in a name: an option of a method among the `words`, or any.

    What other libraries call otherwise is known by that name, too. Only with `everywhere` other methods are asked.
    """
    from fedkin.core.errors import ALIASES
    from fedkin.core.method import options_of
    from fedkin.experiment import registry
    from fedkin.experiment.config import SECTIONS

    methods = [part for word in words for part in word.split(",") if registry.is_known("method", part)]
    options = {option.name for method in methods for option in options_of(registry.declared("method", method))}
    for word in (name, *ALIASES.get(name, ())):
        if word in options or (everywhere and any(registry.holders("method", word))):
            return f"method.{word}"
        if everywhere and any(registry.holders("scenario", word)):
            return f"simulation.{word}"
        for section, model in SECTIONS.items() if everywhere else ():
            if word in model.model_fields:
                return f"{section}.{word}"
    return None
