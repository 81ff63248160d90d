"""Writes the reference of the command line into its page: ``python docs/make_cli.py``."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
    for section in SECTIONS:
        yield f"## {section}"
        for name, command in app.commands.items():
            if getattr(command, "section", SECTIONS[-1]) == section:
                yield from _described(command, f"fedkin {name}")


def _described(command: click.Command, path: str) -> Iterator[str]:
    """A command: its usage, what it does, its arguments and options; or those below it."""
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from _described(below, f"{path} {name}")
        return
    ctx = click.Context(command, info_name=path, parent=click.Context(app, **app.context_settings))
    yield f"### {path}"
    yield f"```text\n{path} {' '.join(command.collect_usage_pieces(ctx))}\n```"
    about, _, lines = (command.help or "").partition("\b\n")
    yield _coded(" ".join(about.split()))
    if lines:
        yield f"```text\n{lines.rstrip()}\n```"
    rows = [("argument or option", "meaning"), ("---", "---")]
    rows += [(f"`{_piped(head)}`", _piped(_coded(text))) for head, text in _records(command, ctx)]
    yield "\n".join(f"| {head} | {text} |" for head, text in rows)


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


def _piped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(filled())
