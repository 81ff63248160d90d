"""Fills lists that the code knows into the pages when the site is built: options of methods and others, commands.

A page marks where its list stands by ``<!-- options -->`` or ``<!-- commands -->``. So no list is kept twice; on the
terminal ``fedkin list NAME`` and ``fedkin COMMAND --help`` show the same.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import click

from fedkin.cli import app
from fedkin.cli.app import SECTIONS
from fedkin.core.method import Option, options_of
from fedkin.experiment import config, registry
from fedkin.experiment.config import FROM_DATA

_MARK = re.compile(r"^<!-- (?:options|commands) -->$", re.MULTILINE)

_SHARED = {"scfc": "ccfc", "ppfc-gan": "sda-fc"}
"""Methods that are another one with a part exchanged, with the other one."""


def _first_paragraph(declared: type) -> str:
    return " ".join(inspect.cleandoc(declared.__doc__ or "").partition("\n\n")[0].split())


def filled(page: str, text: str) -> str:
    """The text of a page, such as ``methods/kfed``, with its list; a page without a mark stays as it is."""
    if not _MARK.search(text):
        return text
    listed = {"cli": _commands, "scenarios": _scenarios, "experiments": _experiments}
    made = listed[page]() if page in listed else _method(page.removeprefix("methods/"))
    return _MARK.sub(lambda _: made, text)


def _method(name: str) -> str:
    """A method's options; those of another page by name alone."""
    options, other = options_of(registry.resolve("method", name)), _page_with_the_rest(name)
    if other is None:
        return _listed(options)
    there = {_looks(option): option.default for option in options_of(registry.resolve("method", other))}
    rest = [option for option in options if _looks(option) in there]
    changed = [f"`{_head(option)}`" for option in rest if option.default != there[_looks(option)]]
    named = "" if len(rest) == len(there) else f": {', '.join(f'`{option.name}`' for option in rest)}"
    text = f"{'those' if named else 'all'} of [{other}]({other}.md#options){named}"
    text += f". Other defaults here: {', '.join(changed)}." if changed else "."
    own = [option for option in options if option not in rest]
    return f"{_listed(own)}\n\nAnd {text}" if own else f"{text[0].upper()}{text[1:]}"


def _page_with_the_rest(name: str) -> str | None:
    """The method on whose page the options are that several share."""
    if name in _SHARED:
        return _SHARED[name]
    return "fedavg" if name != "fedavg" and registry.resolve("method", name).traits.clusters == "clients" else None


def _looks(option: Option) -> tuple[str, str, str]:
    """All of an option but its default."""
    return option.name, option.allowed, option.meaning


def _scenarios() -> str:
    """Each scenario's options; those that several have come first."""
    made = {name: registry.resolve("scenario", name) for name in registry.SCENARIOS}
    times = Counter(_looks(option) for scenario in made.values() for option in _scenario_options(scenario))
    several = {
        _looks(option): option
        for scenario in made.values()
        for option in _scenario_options(scenario)
        if times[_looks(option)] > 1
    }
    parts = [f"## Options of several\n\n{_listed([*several.values()], default=False)}"]
    for name, scenario in made.items():
        options = _scenario_options(scenario)
        shared = [f"`{_head(option)}`" for option in options if _looks(option) in several]
        rest = [option for option in options if _looks(option) not in several]
        parts.append(f"## {name}\n\n{_as_markdown(_first_paragraph(scenario))}")
        if shared:
            parts.append(f"Options of several: {', '.join(shared)}.")
        if rest:
            parts.append(_listed(rest))
    return "\n\n".join(parts)


def _scenario_options(scenario: type) -> list[Option]:
    """The options of a scenario, less those that the section ``[data]`` gives."""
    return [option for option in options_of(scenario) if option.name not in FROM_DATA]


def _experiments() -> str:
    """The options of each section of an experiment but those of methods and scenarios."""
    parts = []
    for name in [each for each in config.SECTIONS if each != "method"]:
        section = config.SECTIONS[name]
        about = _as_markdown(_first_paragraph(section)).partition(": ")[2]
        text = f"{about[0].upper()}{about[1:].partition(', see')[0].partition('; see')[0].rstrip('.')}."
        parts.append(f"## {name}\n\n{text}\n\n{_listed(options_of(section))}")
    return "\n\n".join(parts)


def _head(option: Option) -> str:
    """An option with its default; alone where it has none, or is not set by default."""
    return f"{option.name} = {option.default_text}" if option.default_text else option.name


def _listed(options: Sequence[Option], default: bool = True) -> str:
    """Options with their default, what they take and their meaning."""
    heads = [_head(each) if default else each.name for each in options]
    return "\n".join(
        f"* `{head}` (`{each.allowed}`): {each.meaning}" for head, each in zip(heads, options, strict=True)
    )


def _as_markdown(text: str) -> str:
    return text.replace("``", "`")


def _commands() -> str:
    """Every command as the program has it."""
    parts = ["## Options of several commands", _command_options(_of_several_commands())]
    for section, names in SECTIONS.items():
        parts.append(f"## {section}")
        for name in names:
            parts += _described(app.commands[name], f"fedkin {name}")
    return "\n\n".join(parts)


def _described(command: click.Command, path: str) -> Iterator[str]:
    """A command: what it does, its arguments and options; or those below it."""
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from _described(below, f"{path} {name}")
        return
    ctx = click.Context(command, info_name=path, parent=click.Context(app, **app.context_settings))
    yield f"### {path}"
    about, _, lines = (command.help or "").partition("\b\n")
    yield _coded(" ".join(about.split()))
    if lines:
        yield f"```text\n{lines.rstrip()}\n```"
    records, several = list(_records(command, ctx)), _of_several_commands()
    if rest := [record for record in records if record not in several]:
        yield _command_options(rest)
    if shared := [f"`{head}`" for head, text in records if (head, text) in several]:
        yield f"{'Also ' if rest else ''}{', '.join(shared)}."


def _command_options(records: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"* `{head}`: {_coded(text)}" for head, text in records)


@functools.cache
def _of_several_commands() -> list[tuple[str, str]]:
    """Options with one meaning at several commands, and what they mean."""
    commands = [*app.commands.values()]
    commands += [below for each in commands if isinstance(each, click.Group) for below in each.commands.values()]
    records = [record for command in commands for record in _records(command, click.Context(command))]
    return [record for record, times in Counter(records).items() if times > 1 and record[0].startswith("-")]


def _records(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, str]]:
    """Names and meanings of a command's arguments and options; `--help` is every command's."""
    for each in command.params:
        if (record := each.get_help_record(ctx)) is not None:
            yield record[0], re.sub(r" +", " ", record[1])


def _coded(text: str) -> str:
    """Options in a sentence as code, whose dashes stay as they are."""
    spans = text.split("`")
    spans[::2] = [re.sub(r"(?<![\w-])--[a-z][\w-]*", r"`\g<0>`", span) for span in spans[::2]]
    return "`".join(spans)
