"""Click commands whose help describes every argument and which complete names, and options that several share."""

from __future__ import annotations

import difflib
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

SECTIONS = ("Runs", "Finished runs", "Many runs", "More")
"""What `fedkin --help` divides commands into, in order."""


class Argument(click.Argument):
    """Argument with a description, `help`, for every version of click that fedkin supports."""

    def __init__(self, param_decls: Sequence[str], help: str = "", **more: Any) -> None:
        super().__init__(param_decls, **more)
        self.help = help

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        default = self.get_default(ctx)
        shown = f"  [default: {default}]" if isinstance(default, str) and default else ""
        return self.make_metavar(ctx), f"{self.help}{shown}"


class Command(click.Command):
    """Command of fedkin; `section` is where `fedkin --help` lists it, one of `SECTIONS`."""

    def __init__(self, *args: Any, section: str = "More", **more: Any) -> None:
        super().__init__(*args, **more)
        self.section = section

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write nothing where recent versions of click write arguments; `format_options` does that."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write arguments, then options."""
        _write_parameters(self, ctx, formatter)


class Group(click.Group):
    """Command with subcommands, which are listed by section in the order they were added."""

    command_class = Command
    section = "More"

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            near = difflib.get_close_matches(args[0], self.commands, n=1)
            meant = f"; did you mean '{near[0]}'?" if near else "."
            raise click.UsageError(f"No such command '{args[0]}'{meant}", ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_parameters(self, ctx, formatter)
        width = max(map(len, self.commands))
        for section in SECTIONS:
            commands = {
                name: each for name, each in self.commands.items() if getattr(each, "section", "More") == section
            }
            if commands:
                with formatter.section(section if len(commands) < len(self.commands) else "Commands"):
                    limit = formatter.width - width - 6
                    formatter.write_dl(
                        [(name.ljust(width), each.get_short_help_str(limit)) for name, each in commands.items()]
                    )


def _write_parameters(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    for title, kind in (("Arguments", click.Argument), ("Options", click.Option)):
        records = [each.get_help_record(ctx) for each in command.get_params(ctx) if isinstance(each, kind)]
        if rows := [record for record in records if record is not None]:
            with formatter.section(title):
                formatter.write_dl(rows)


# Types of parameters, which are checked before anything heavy is imported.


class Name(click.ParamType):  # type: ignore[type-arg]  # generic in recent versions alone
    """Parameter type of a name, which the shell completes.

    `names` are what the shell completes to or, with `files`, to a path; `check` raises FedkinError if a value is no
    name and no path.
    """

    name = "text"

    def __init__(
        self, names: Callable[[], Iterable[str]], files: bool = False, check: Callable[[str], object] | None = None
    ) -> None:
        self._names, self._files, self._check = names, files, check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if self._check is not None:
            self._check(value)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        items = [CompletionItem(name) for name in self._names() if name.startswith(incomplete)]
        return items if items or not self._files else [CompletionItem(incomplete, type="file")]


def _check_experiment(value: str) -> None:
    """Check a method's name or an experiment's file; what the file says is checked when it is read."""
    if not value.endswith(".toml"):
        target_of("method", value)
    elif not Path(value).is_file():
        read_tables(Path(value))


def _check_run_or_experiment(value: str) -> None:
    if not Path(value).is_dir():
        _check_experiment(value)


METHOD = Name(lambda: METHODS, files=True, check=_check_experiment)
RUN_OR_METHOD = Name(lambda: METHODS, files=True, check=_check_run_or_experiment)
SCENARIO = Name(lambda: SCENARIOS, check=lambda name: target_of("scenario", name))
DATA = Name(lambda: EMBEDDED, files=True)
SAMPLES = Name(lambda: EMBEDDED, files=True, check=check_source)
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


def run_folder(help: str = "Folder of a finished run.", name: str = "folder") -> Decorator:
    """Add the argument for the folder of a run."""
    return argument(name, help, "RUN", type=RUN)


def device(what: str, default: str | None = "cpu") -> Decorator:
    """Add the option for the device that `what` compute on."""
    help = f"Where {what}, such as cuda."
    return option("--device", help, "NAME", default=default, show_default=default is not None)


def tools(name: str, default: str = "") -> Decorator:
    """Add the option for tracking tools; `default` ends its help text."""
    names = ["tensorboard", "mlflow", "wandb"]
    help = f"Tool to send records to: tensorboard, mlflow or wandb{default}. May be repeated."
    return option(name, help, "TOOL", type=click.Choice(names), multiple=True)


run_folders = argument("folders", "Folders of runs.", "RUN...", type=RUN, nargs=-1, required=True)
as_json = flag("--json as_json", "Print JSON instead of text.")
quiet = flag("-q --quiet", "Print nothing but warnings and errors.")
NETWORKS = "networks and kin-graph's large searches compute"


@contextmanager
def computing_on(name: str) -> Iterator[None]:
    """Set the device that `--device` names, as a context manager."""
    from fedkin.core.device import device_named, on

    with on(device_named(name, "'--device'")):
        yield
