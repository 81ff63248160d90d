"""Command-line program ``fedkin``: arguments and options that commands share, and how commands end.

Exit codes are `DONE`, `FAILED`, `REFUSED` and `INTERRUPTED`. Any error that a user can cause ends with one sentence on
stderr and `REFUSED`; a traceback and `FAILED` mean a bug in fedkin.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.shell_completion import CompletionItem

from fedkin import __version__
from fedkin.core.errors import ALIASES, SHELL, FedkinError, at_door, nearest
from fedkin.core.files import read_tables
from fedkin.data.names import EMBEDDED, locate
from fedkin.experiment.registry import METHODS, SCENARIOS, target_of
from fedkin.experiment.terminal_tables import PlainStream

if TYPE_CHECKING:
    from fedkin.core.runner import Progress
    from fedkin.experiment.run import RunOutcome

Decorator = Callable[[Any], Any]
"""Of a command's function, to which it adds an argument or an option."""

SECTIONS = {
    "Runs": ("run", "cluster", "resume", "pretrain"),
    "Finished runs": ("predict", "assign", "cut", "forget", "name", "costs", "attack", "disclosure"),
    "Many runs": ("compare", "reproduce"),
    "More": ("federation", "list"),
}
"""The commands by what `fedkin --help` divides them into, in order."""


class Argument(click.Argument):
    """Argument with a description, `help`, which versions of click before 8.5 lack."""

    def __init__(self, param_decls: Sequence[str], help: str = "", **more: Any) -> None:
        super().__init__(param_decls, **more)
        self.help = help

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        default = self.get_default(ctx)
        shown = f"  [default: {default}]" if isinstance(default, str) and default else ""
        return self.make_metavar(ctx), f"{self.help}{shown}"


class Group(click.Group):
    """Command with subcommands, which are listed as `SECTIONS` has them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.commands))
        sections = SECTIONS if ctx.parent is None else {"Commands": tuple(self.commands)}
        for title, names in sections.items():
            with formatter.section(title):
                texts = {name: self.commands[name].get_short_help_str(formatter.width - width - 6) for name in names}
                formatter.write_dl([(name.ljust(width), text) for name, text in texts.items()])


class Name(click.ParamType):  # type: ignore[type-arg]  # generic in recent versions alone
    """Parameter type of a name: the shell completes to `names()` or a path, and `check` raises FedkinError."""

    name = "text"

    def __init__(self, names: Callable[[], Iterable[str]], check: Callable[[str], object] = lambda value: None) -> None:
        self.names, self.check = names, check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        self.check(value)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        items = [CompletionItem(name) for name in self.names() if name.startswith(incomplete)]
        return items or [CompletionItem(incomplete, type="file")]


def _check_experiment(value: str) -> object:
    """Check a method's name, or that an experiment's file is one."""
    return read_tables(Path(value)) if value.endswith(".toml") else target_of("method", value)


METHOD = Name(lambda: METHODS, _check_experiment)
SCENARIO = Name(lambda: SCENARIOS, lambda name: target_of("scenario", name))
DATA = Name(lambda: EMBEDDED)
SAMPLES = Name(lambda: EMBEDDED, locate)
PATH, COUNT = click.Path(path_type=Path), click.IntRange(1)
RUN = click.Path(path_type=Path, file_okay=False, exists=True)


# Arguments and options, as decorators.


def argument(name: str, help: str, metavar: str | None = None, **more: Any) -> Decorator:
    """Add an argument with a description."""
    return click.argument(name, cls=Argument, help=help, metavar=metavar, **more)


def option(name: str, help: str, metavar: str | None = None, **more: Any) -> Decorator:
    """Add an option; `name` may hold several, as ``"-o --out"``, the last one without hyphens for the parameter."""
    return click.option(*name.split(), help=help, metavar=metavar, **more)


def flag(name: str, help: str) -> Decorator:
    """Add an option without a value."""
    return click.option(*name.split(), is_flag=True, help=help)


def settings(help: str) -> Decorator:
    """Add the option ``--set KEY=VALUE``, which may be repeated."""
    return option("-s --set settings", f"{help} May be repeated.", "KEY=VALUE", multiple=True)


def out(help: str, **more: Any) -> Decorator:
    """Add the option for the output folder."""
    return option("-o --out", help, type=PATH, **more)


def results(help: str, **more: Any) -> Decorator:
    """Add the options for the output folder, and for JSON or nothing in place of text."""
    return lambda command: out(help, **more)(as_json(quiet(command)))


def run_folder(help: str = "Folder of a finished run.", name: str = "folder") -> Decorator:
    """Add the argument for the folder of a run."""
    return argument(name, help, "RUN", type=RUN)


def device(what: str, default: str | None = "cpu") -> Decorator:
    """Add the option for the device that `what` compute on."""
    return option("--device", f"Where {what}.", "NAME", default=default, show_default=default is not None)


as_json = flag("--json as_json", "Print JSON instead of text.")
quiet = flag("-q --quiet", "Print nothing but warnings and errors.")
NETWORKS = "networks and kin-graph's large searches compute, such as cuda"


@contextmanager
def computing_on(name: str) -> Iterator[None]:
    """Set the device that `--device` names, as a context manager."""
    from fedkin.core.device import device_named, on

    with on(device_named(name, "'--device'")):
        yield


# The program.


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
    if not isinstance(error, click.NoSuchOption):
        text = error.format_message()
    else:
        key = error.option_name.lstrip("-").replace("-", "_")
        near = [takes[meant]] if (meant := nearest(key, takes)) in takes else []
        text = click.NoSuchOption(error.option_name, possibilities=near, ctx=error.ctx).format_message()
        if "set" in takes and not near:
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
        is_begun = written is None or written.exists()
        stop(f"Interrupted; {how}." if is_begun else "Interrupted before anything was written.", INTERRUPTED)


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
