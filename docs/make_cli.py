"""Writes the reference of the command line into its page: ``python docs/make_cli.py``."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from fedkin.cli import app
from fedkin.cli.help_pages import SECTIONS

PAGE = Path(__file__).parent / "cli.md"
_BETWEEN = re.compile(r"(?<=<!-- commands -->\n).*?(?=<!-- /commands -->)", re.DOTALL)


def filled() -> str:
    """The page with every command as the program has it now."""
    return _BETWEEN.sub(lambda _: "\n" + "\n\n".join(_parts()) + "\n\n", PAGE.read_text())


def _parts() -> Iterator[str]:
    yield "## Options of several commands"
    yield _listed(_of_several())
    for section in SECTIONS:
        yield f"## {section}"
        for name, command in app.commands.items():
            if getattr(command, "section", SECTIONS[-1]) == section:
                yield from _described(command, f"fedkin {name}")


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
    records, several = list(_records(command, ctx)), _of_several()
    if own := [record for record in records if record not in several]:
        yield _listed(own)
    if shared := [f"`{head}`" for head, text in records if (head, text) in several]:
        yield f"{'Also ' if own else ''}{', '.join(shared)}."


def _listed(records: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"* `{head}`: {_coded(text)}" for head, text in records)


@functools.cache
def _of_several() -> list[tuple[str, str]]:
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


if __name__ == "__main__":
    PAGE.write_text(filled())
