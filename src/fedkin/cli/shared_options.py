"""Arguments and options that several commands share, as decorators, and what `--device` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from fedkin.cli.help_pages import DATA, SCENARIO, Argument, RunFolder

F = TypeVar("F", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)


def argument(name: str, help: str, **more: Any) -> Callable[[F], F]:
    """Add an argument with a description."""
    return click.argument(name, cls=Argument, help=help, **more)


folders = argument("folders", "Folders of runs.", metavar="RUN...", type=RunFolder(), nargs=-1, required=True)
clients = click.option("--clients", type=int, help="Number of clients.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
quiet = click.option("-q", "--quiet", is_flag=True, help="Print nothing but warnings and errors.")
packages = click.option(
    "--package", "packages", metavar="NAME", multiple=True,
    help="Package besides fedkin that a method, model or features may come from. May be repeated.",
)  # fmt: skip


def folder(name: str = "folder", help: str = "Folder of a run.") -> Callable[[F], F]:
    """Add the argument for the folder of a run."""
    return argument(name, help, metavar="RUN", type=RunFolder())


def out(help: str, **more: Any) -> Callable[[F], F]:
    """Add the option for the output folder."""
    return click.option("-o", "--out", type=PATH, help=help, **more)


def device(help: str, default: str | None = "cpu") -> Callable[[F], F]:
    """Add the option for the device to compute on."""
    return click.option("--device", metavar="NAME", default=default, show_default=default is not None, help=help)


@contextmanager
def computing_on(name: str) -> Iterator[None]:
    """Set the device that `--device` names, as a context manager."""
    from fedkin.core.device import device_named, on

    with on(device_named(name, "'--device'")):
        yield


def settings(help: str) -> Callable[[F], F]:
    """Add the option ``--set KEY=VALUE``, which may be repeated."""
    return click.option("-s", "--set", "settings", metavar="KEY=VALUE", multiple=True, help=f"{help} May be repeated.")


def tools(*names: str, default: str = "") -> Callable[[F], F]:
    """Add the option for tracking tools; `default` ends its help text."""
    return click.option(
        *names,
        metavar="TOOL",
        type=click.Choice(["tensorboard", "mlflow", "wandb"]),
        multiple=True,
        help=f"Tool to send records to: tensorboard, mlflow or wandb{default}. May be repeated.",
    )


def data(help: str) -> Callable[[F], F]:
    """Add the option for data by name or path."""
    return click.option("--data", metavar="DATA", type=DATA, help=help)


def scenario(help: str) -> Callable[[F], F]:
    """Add the option for the scenario, by which clients get data."""
    return click.option("--scenario", metavar="NAME", type=SCENARIO, help=help)
