"""The command that lists what there is."""

from __future__ import annotations

from typing import Annotated

import typer

from fedkin.cli.app import app, stop


@app.command("list")
def list_names(
    section: Annotated[
        str | None,
        typer.Argument(help="methods, data, scenarios, models or autoencoders; by default, all.", show_default=False),
    ] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Show for every scenario who holds what.")] = False,
    data: Annotated[
        str | None, typer.Option(help="Data set for --preview; by default, digits.", show_default=False)
    ] = None,
) -> None:
    """List methods, data, scenarios and models, one line each."""
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
    if section is not None and section not in sections:
        from fedkin.core.errors import unknown_name

        raise unknown_name("section", section, sections)
    shown = [section] if section else list(sections)
    below = _previews(shown, preview, data)
    for title in shown:
        print(title.capitalize())
        for name, summary in sections[title].items():
            print(f"  {name:<17}  {summary}")
            for line in below.get(name, "").splitlines() if title == "scenarios" else ():
                print(f"    {line}".rstrip())
            if title == "scenarios" and preview:
                print()


def _previews(shown: list[str], wanted: bool, data: str | None) -> dict[str, str]:
    """Who holds what, by scenario; nothing unless it is wanted."""
    if not wanted and data is None:
        return {}
    if not wanted or "scenarios" not in shown:
        stop("--preview is for `fedkin list scenarios`, and --data for --preview.", 2)
    from fedkin.data.scenarios.preview import previews
    from fedkin.experiment import registry

    made = {name: registry.resolve("scenario", name) for name in registry.SCENARIOS}
    return previews(made, data or "digits")
