"""Names of clients in messages, charts and tables, and in options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

_SUFFIXES = (".csv", ".tsv", ".parquet", ".npz")


def short_names(names: Sequence[str]) -> list[str]:
    """Shorten the clients' names to file names without suffix, except where two would become equal."""
    short = [Path(name).stem if name.lower().endswith(_SUFFIXES) else name for name in names]
    times = Counter(name.lower() for name in short)
    return [own if own and times[own.lower()] == 1 else name for own, name in zip(short, names, strict=True)]


def client_name(client: int, names: Sequence[str]) -> str:
    """Return a client's name for charts and tables: its short name, or its id if clients have no names."""
    return short_names(names)[client] if client < len(names) else str(client)


def position_of(client: int | str | None, names: Sequence[str], count: int) -> int | None:
    """Find a client's position among `count` by name, short name or number; ``None`` if there is no such client."""
    short = short_names(names)
    if isinstance(client, str) and client in (*names, *short):
        return (list(names) if client in names else short).index(client)
    if isinstance(client, str) and client.isdecimal():
        client = int(client)
    return client if isinstance(client, int) and 0 <= client < count else None
