"""Command that lists names, or the options of one method or scenario."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING, Any

from fedkin.cli.app import app
from fedkin.cli.help_pages import Name, argument, as_json

if TYPE_CHECKING:
    from fedkin.core.method import Option
    from fedkin.experiment.registry import Kind

_FACTS = ("clusters", "finds_k", "takes_k", "moves_data", "copies_data", "baseline", "cost", "scenario")
_SECTIONS = ("methods", "data", "scenarios", "models", "autoencoders")


def _listed() -> list[str]:
    sections = _sections()
    return [*sections, *(name for names in sections.values() for name in names)]


@app.command("list")
@argument(
    "name", f"{', '.join(_SECTIONS[:-1])} or {_SECTIONS[-1]}; or a method or a scenario, to list its options. By "
    "default, all names are listed.", required=False, type=Name(_listed),
)  # fmt: skip
@as_json
def list_names(name: str | None, as_json: bool) -> None:
    """List methods, data, scenarios and models. With a method or a scenario, list its options."""
    sections = _sections()
    shown = [name] if name in sections else [] if name else list(sections)
    if name and not shown:
        _print_one(name, sections, as_json)
    elif as_json:
        print(json.dumps({title: sections[title] for title in shown}, indent=2))
    else:
        _print_names({title: sections[title] for title in shown})


def _sections() -> dict[str, Mapping[str, str]]:
    """Return names and their descriptions, by section."""
    from fedkin.data import names as dataset_names
    from fedkin.experiment import registry
    from fedkin.nn import AUTOENCODERS, MODELS

    methods = {name: entry.summary for name, entry in registry.METHODS.items()}
    scenarios = {name: entry.summary for name, entry in registry.SCENARIOS.items()}
    return dict(zip(_SECTIONS, (methods, dataset_names.EMBEDDED, scenarios, MODELS, AUTOENCODERS), strict=True))


def _print_names(sections: Mapping[str, Mapping[str, str]]) -> None:
    for title, names in sections.items():
        print(title.capitalize())
        for name, summary in names.items():
            print(_lines(summary, f"  {name:<17}  ", " " * 21))


def _print_one(name: str, sections: Mapping[str, Mapping[str, str]], as_json: bool) -> None:
    """Print the options of a method or scenario, or the description of any other name."""
    for title in ("data", "models", "autoencoders"):
        if name in sections[title]:
            summary = sections[title][name]
            print(json.dumps({"name": name, "summary": summary}, indent=2) if as_json else f"{name}: {summary}")
            return
    if ":" not in name and name not in sections["methods"] and name not in sections["scenarios"]:
        from fedkin.core.errors import unknown_name
        from fedkin.experiment.registry import target_of

        if "." in name or "/" in name:
            target_of("method", name)  # which knows what modules and files are meant for
        raise unknown_name("name", name, [*sections, *(each for names in sections.values() for each in names)])
    from fedkin.core.errors import toml_text
    from fedkin.core.method import options_of
    from fedkin.experiment import registry
    from fedkin.experiment.config import FROM_DATA, MethodSection, SimulationSection, model_of

    kind: Kind = "scenario" if name in sections["scenarios"] else "method"
    declared_class: Any = registry.declared(kind, name)
    model_of(
        declared_class, SimulationSection if kind == "scenario" else MethodSection
    )  # which refuses what no file can hold
    options = [option for option in options_of(declared_class) if kind == "method" or option.name not in FROM_DATA]
    summary = registry.summary_of(kind, name)
    if as_json:
        about = {each: getattr(declared_class.traits, each) for each in _FACTS} if kind == "method" else {}
        tree = {"name": name, "kind": kind, "summary": summary, **about, "options": list(map(_plain, options))}
        print(json.dumps(tree, indent=2))
        return
    print(_lines(f"{name}: {summary}" if summary else name))
    if kind == "method":
        print(_lines(_in_words(declared_class)))
        if paper := declared_class.traits.paper:
            texts = [f"{key} = {toml_text(value)}" for key, value in paper.items()]
            print(_lines(f'variant = "paper" stands for {", ".join(texts)}.'))
    place = "method" if kind == "method" else "simulation"
    how = f"Options, set by --set {place}.NAME=VALUE or in [{place}] of an experiment's file:"
    print(f"\n{_lines(how)}")
    _print_options(options)


def _in_words(method: type[Any]) -> str:
    """Describe what a method clusters, who gives the number of clusters, and whether samples are moved."""
    what = f"{'a baseline that ' if method.traits.baseline else ''}clusters {method.traits.clusters}"
    number = "finds their number" if method.traits.finds_k else "their number is given"
    if method.traits.clusters is None or (method.traits.baseline and method.traits.finds_k):
        what, number = "a baseline" if method.traits.baseline else "evaluates nothing", "forms no clusters"
    moved = "samples leave the clients" if method.traits.moves_data else "samples stay at the clients"
    moved = "synthetic samples leave the clients" if method.traits.copies_data else moved
    return f"{what[0].upper()}{what[1:]}; {number}; {moved}."


def _print_options(options: Sequence[Option]) -> None:
    """Print each option in two lines: its default in TOML and the allowed values, and its description."""
    width = min(get_terminal_size().columns, 100)
    heads = [f"{option.name} = {option.default_text}" if option.default_text else option.name for option in options]
    column = min(max(map(len, heads), default=0), 36)
    for head, each in zip(heads, options, strict=True):
        print("\n" + _lines(each.allowed, f"  {head:<{column}}  ", " " * 6))
        if each.meaning:
            print(fill(each.meaning, width, initial_indent=" " * 6, subsequent_indent=" " * 6))


def _lines(text: str, first: str = "", hanging: str = "") -> str:
    """Wrap a text to the terminal's width; one line without a terminal."""
    if not sys.stdout.isatty():
        return first + text
    return fill(text, get_terminal_size().columns, initial_indent=first, subsequent_indent=hanging)


def _plain(option: Option) -> dict[str, Any]:
    """Return an option as plain values; a required one has no default."""
    default = {"default": json.loads(option.default_text)} if option.default_text else {}
    return {"name": option.name, **default, "allowed": option.allowed, "meaning": option.meaning}
