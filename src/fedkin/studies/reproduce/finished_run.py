"""Records and times of one finished run."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

from fedkin.core import FedkinError
from fedkin.core.progress import RecordLine, Timing
from fedkin.experiment.run_folder import RECORDS, read_lines, read_timing


class FinishedRun:
    """Records and times of a finished run, each read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def records(self) -> list[RecordLine]:
        """Lines of ``records.jsonl``."""
        return read_lines(self.folder / RECORDS)

    @cached_property
    def timing(self) -> list[Timing]:
        """Lines of ``timing.jsonl``."""
        return read_timing(self.folder)

    @property
    def names(self) -> set[str]:
        """Names of all numbers in the records; not those of lists."""
        names = {name for line in self.records for part in ("values", "metrics") for name in line[part]}
        return {name for name in names if any(value is not None for value in self.values(name))}

    def values(self, name: str) -> list[float | None]:
        """Return a number from every record; ``None`` where it is absent or not a number."""
        return [_number(line, *split_name(name)) for line in self.records]


def split_name(name: str) -> tuple[str, str | None]:
    """Split ``name[i]`` into the name and the position in a list.

    Raises FedkinError if it has another form.
    """
    match = re.fullmatch(r"(\w+)(?:\[(\d+)\])?", name)
    if not match:
        raise FedkinError(f"'{name}' is not the name of a number; see docs/reproduce.md for what can be measured.")
    return match[1], match[2]


def _number(line: RecordLine, name: str, place: str | None) -> float | None:
    value = line["metrics"].get(name, line["values"].get(name))
    if place is not None:
        value = value[int(place)] if isinstance(value, list) and int(place) < len(value) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
