"""Arguments and options that several commands share, checked before anything heavy is imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from fedkin.core.files import read_tables
from fedkin.data.names import EMBEDDED, check_source
from fedkin.experiment.registry import METHODS, SCENARIOS, target_of

Decorator = Callable[[Any], Any]
"""Of a command's function, to which it adds an argument or an option."""

SECTIONS = {
    "Runs": ("run", "cluster", "resume", "pretrain"),
    "Finished runs": (
        "predict", "assign", "update", "cut", "forget", "name", "costs", "diff", "methods", "table", "cite", "attack",
        "disclosure",
    ),
    "Many runs": ("compare", "reproduce"),
    "More": ("federation", "list"),
}  # fmt: skip
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
RUN_OR_METHOD = Name(lambda: METHODS, lambda value: Path(value).is_dir() or _check_experiment(value))
SCENARIO = Name(lambda: SCENARIOS, lambda name: target_of("scenario", name))
DATA = Name(lambda: EMBEDDED)
SAMPLES = Name(lambda: EMBEDDED, check_source)
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


run_folders = argument("folders", "Folders of runs.", "RUN...", type=RUN, nargs=-1, required=True)
as_json = flag("--json as_json", "Print JSON instead of text.")
quiet = flag("-q --quiet", "Print nothing but warnings and errors.")
NETWORKS = "networks and kin-graph's large searches compute, such as cuda"


@contextmanager
def computing_on(name: str) -> Iterator[None]:
    """Set the device that `--device` names, as a context manager."""
    from fedkin.core.device import device_named, on

    with on(device_named(name, "'--device'")):
        yield
