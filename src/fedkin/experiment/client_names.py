"""What clients are called: in sentences, charts and tables, and where a user names one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

_SUFFIXES = (".csv", ".tsv", ".parquet", ".npz")


def short_names(names: Sequence[str]) -> list[str]:
    """What clients are called in sentences: a file's name without its suffix, where no other is called so."""
    short = [Path(name).stem if name.lower().endswith(_SUFFIXES) else name for name in names]
    times = Counter(name.lower() for name in short)
    return [own if own and times[own.lower()] == 1 else name for own, name in zip(short, names, strict=True)]


def client_name(client: int, names: Sequence[str]) -> str:
    """What one client is called in charts and tables: its short name, or where clients have none its id."""
    return short_names(names)[client] if client < len(names) else str(client)


def position_of(client: int | str | None, names: Sequence[str], count: int) -> int | None:
    """The position of a client among `count`, by its name, its short name or the position; ``None`` if it is none's."""
    short = short_names(names)
    if isinstance(client, str) and client in (*names, *short):
        return (list(names) if client in names else short).index(client)
    if isinstance(client, str) and client.isdecimal():
        client = int(client)
    return client if isinstance(client, int) and 0 <= client < count else None
