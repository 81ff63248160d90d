"""Command that lists names, or the options of one method or scenario."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedkin.cli.app import app
from fedkin.cli.help_pages import Name, argument
from fedkin.core.errors import toml_text, unknown_name
from fedkin.experiment import registry
from fedkin.experiment.terminal_tables import table_text


def _sections() -> dict[str, Mapping[str, str]]:
    """Return names and their descriptions, by section."""
    from fedkin.data.names import EMBEDDED
    from fedkin.nn import AUTOENCODERS, MODELS

    return {
        "methods": {name: entry.summary for name, entry in registry.METHODS.items()},
        "data": EMBEDDED,
        "scenarios": {name: entry.summary for name, entry in registry.SCENARIOS.items()},
        "models": MODELS,
        "autoencoders": AUTOENCODERS,
    }


def _listed() -> list[str]:
    sections = _sections()
    return [*sections, *(name for names in sections.values() for name in names)]


@app.command("list")
@argument(
    "name", "methods, data, scenarios, models or autoencoders; or a method or a scenario, to list its options. By "
    "default, all names are listed.", required=False, type=Name(_listed),
)  # fmt: skip
def list_names(name: str | None) -> None:
    """List methods, data, scenarios and models. With a method or a scenario, list its options."""
    sections = _sections()
    plain = {**sections["data"], **sections["models"], **sections["autoencoders"]}
    if name is None or name in sections:
        for title, names in (sections if name is None else {name: sections[name]}).items():
            print(f"{title.capitalize()}\n{table_text([(f'  {each}', text) for each, text in names.items()], (0, 1))}")
    elif name in plain:
        print(f"{name}: {plain[name]}")
    elif ":" in name or name in sections["methods"] or name in sections["scenarios"]:
        _print_options(name, "scenario" if name in sections["scenarios"] else "method")
    else:
        raise unknown_name("name", name, _listed())


def _print_options(name: str, kind: registry.Kind) -> None:
    """Print what a method or scenario is, and its options."""
    from fedkin.core.method import options_of
    from fedkin.experiment.config import FROM_DATA, MethodSection, SimulationSection, model_of

    declared: Any = registry.declared(kind, name)
    model_of(declared, SimulationSection if kind == "scenario" else MethodSection)  # refuses what no file can hold
    print(f"{name}: {registry.summary_of(kind, name)}")
    section = "method" if kind == "method" else "simulation"
    if kind == "method":
        print(_in_words(declared))
        if paper := declared.traits.paper:
            texts = [f"{key} = {toml_text(value)}" for key, value in paper.items()]
            print(f'variant = "paper" stands for {", ".join(texts)}.')
    print(f"\nOptions, set by --set {section}.NAME=VALUE or in [{section}] of an experiment's file:")
    for option in options_of(declared):
        if kind == "method" or option.name not in FROM_DATA:
            head = f"{option.name} = {option.default_text}" if option.default_text else option.name
            print(f"\n  {head}  ({option.allowed})\n      {option.meaning}".rstrip())


def _in_words(method: type[Any]) -> str:
    """Describe what a method clusters, who gives the number of clusters, and whether samples are moved."""
    traits = method.traits
    what = f"{'a baseline that ' if traits.baseline else ''}clusters {traits.clusters}"
    number = "finds their number" if traits.finds_k else "their number is given"
    if traits.clusters is None or (traits.baseline and traits.finds_k):
        what, number = "a baseline" if traits.baseline else "evaluates nothing", "forms no clusters"
    kind = "synthetic samples" if traits.copies_data else "samples"
    leave = "leave" if traits.moves_data or traits.copies_data else "stay at"
    return f"{what[0].upper()}{what[1:]}; {number}; {kind} {leave} the clients."
