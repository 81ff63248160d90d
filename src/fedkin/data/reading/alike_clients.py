"""Sentences on several clients of which the same is to be said."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fedkin.core.errors import listing

_NAMED = 8
"""Clients that a sentence names."""
_NUMBERED = re.compile(r"Client (\d+)")
_CLIENT = r"Client (?:\d+|'[^']*')|'[^']*'"
_REST = r"(?P<verb>has|is|holds|lacks) (?P<rest>.*)"
_PLURAL = {"has": "have", "is": "are", "holds": "hold", "lacks": "lack"}


def several_clients(names: Sequence[str], within: bool = False) -> str:
    """Return clients, each as ``"Client 3"``, ``"Client 'bern'"`` or a file's name in quotes, as a sentence's subject.

    Numbers that follow each other are one range, as in ``"Clients 0 to 7"``; `within` is for the middle of a sentence.
    """
    numbers = [int(found[1]) for name in names if (found := _NUMBERED.fullmatch(name))]
    word = "client" if len(names) == 1 else "clients"
    if not all(name.startswith("Client ") for name in names):
        return listing(list(names), _NAMED)
    short = [name.removeprefix("Client ") for name in names]
    in_row = len(numbers) == len(names) > 2 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    said = f"{numbers[0]} to {numbers[-1]}" if in_row else _joined(short)
    return f"{word if within else word.capitalize()} {said}"


def said_once(problems: Sequence[str], names: Sequence[str] = ()) -> list[str]:
    """Return problems, of which those that say the same of several clients are one, where the first of them was.

    They begin with the client: ``"Client 3"``, ``"Client 'bern'"``, a file in quotes, or one of `names`.
    """
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    beginning = re.compile(
        rf"(?P<client>{known}|{_CLIENT}) {_REST}" if known else rf"(?P<client>{_CLIENT}) {_REST}", re.S
    )
    alike: dict[tuple[str, str], list[str]] = {}
    for problem in problems:
        found = beginning.fullmatch(problem)
        key = (found["verb"], found["rest"]) if found else ("", problem)
        alike.setdefault(key, []).append(found["client"] if found else "")
    return [
        rest if not verb else f"{clients[0]} {verb} {rest}" if len(clients) == 1 else _of_several(clients, verb, rest)
        for (verb, rest), clients in alike.items()
    ]


def _of_several(clients: Sequence[str], verb: str, rest: str) -> str:
    theirs = (
        rest.replace(" its ", " their ")
        .replace("; it needs ", "; they need ")
        .replace("; it has ", "; they have ")
        .replace(" and has ", " and have ")
    )
    return f"{several_clients(clients)} {_PLURAL[verb]} {theirs}"


def _joined(names: Sequence[str]) -> str:
    if len(names) > _NAMED or len(names) < 2:
        return listing(list(names), _NAMED)
    return f"{', '.join(names[:-1])} and {names[-1]}"
