"""The command that lists names, and the options of one method or scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fedkin.cli.app import app, stop

if TYPE_CHECKING:
    from fedkin.experiment.registry import Kind


@app.command("list")
def list_names(
    name: Annotated[
        str | None,
        typer.Argument(
            help="methods, data, scenarios, models or autoencoders; or a method or a scenario, to list its options. By "
            "default, all names are listed.",
            show_default=False,
        ),
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show for every scenario which client has which classes.")
    ] = False,
    data: Annotated[
        str | None, typer.Option(help="Data set for --preview; by default, digits.", show_default=False)
    ] = None,
) -> None:
    """List methods, data, scenarios and models. With a method or a scenario, list its options."""
    from fedkin.data.reading import names
    from fedkin.experiment import registry
    from fedkin.nn.network_names import AUTOENCODERS, MODELS

    sections = {
        "methods": {name: entry.summary for name, entry in registry.METHODS.items()},
        "data": names.EMBEDDED,
        "scenarios": {name: entry.summary for name, entry in registry.SCENARIOS.items()},
        "models": MODELS,
        "autoencoders": AUTOENCODERS,
    }
    shown = [name] if name in sections else [] if name else list(sections)
    below = _previews(shown, preview, data)
    if name and not shown:
        _print_options(name, sections)
    for title in shown:
        print(title.capitalize())
        for one, summary in sections[title].items():
            print(f"  {one:<17}  {summary}")
            for line in below.get(one, "").splitlines() if title == "scenarios" else ():
                print(f"    {line}".rstrip())
            if title == "scenarios" and preview:
                print()


def _print_options(name: str, sections: dict[str, dict[str, str]]) -> None:
    """The options of a method or a scenario as a table."""
    if ":" not in name and name not in sections["methods"] and name not in sections["scenarios"]:
        from fedkin.core.errors import unknown_name

        raise unknown_name("name", name, [*sections, *sections["methods"], *sections["scenarios"]])
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from fedkin.core.options import options_of
    from fedkin.experiment import registry
    from fedkin.experiment.option_models import FROM_DATA

    kind: Kind = "scenario" if name in sections["scenarios"] else "method"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("Option", no_wrap=True)
    for title, ratio in (("Default", None), ("Allowed", 1), ("Meaning", 2)):
        table.add_column(title, ratio=ratio, overflow="fold")
    for option in options_of(registry.resolve(kind, name)):
        if kind == "method" or option.name not in FROM_DATA:
            table.add_row(*map(Text, (option.name, option.default_text, option.allowed, option.meaning)))
    console = Console(highlight=False, markup=False)
    console.print(f"{name}: {registry.summary_of(kind, name)}")
    console.print(f"Options, set by --set {kind}.NAME=VALUE or in [{kind}] of an experiment's file:")
    console.print(table)


def _previews(shown: list[str], wanted: bool, data: str | None) -> dict[str, str]:
    """The partition of each scenario as text, by name; empty unless it is wanted."""
    if not wanted and data is None:
        return {}
    if not wanted or "scenarios" not in shown:
        stop("--preview is for `fedkin list scenarios`, and --data for --preview.", 2)
    from fedkin.data.scenarios.preview import previews
    from fedkin.experiment import registry

    made = {name: registry.resolve("scenario", name) for name in registry.SCENARIOS}
    return previews(made, data or "digits")
