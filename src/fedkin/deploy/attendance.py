"""Attendance of a real federation's sites, in the file ``sites.json`` beside the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.files import read_json, write_atomically
from fedkin.core.progress import Callback, RecordLine, Timing
from fedkin.engines.flower_engine.grid import FlowerFederation
from fedkin.experiment.terminal_tables import table_text

SITES = "sites.json"
_COLUMNS = ("site", "now", "since", "first step", "last reply", "why")


@dataclass
class Presence:
    """Attendance of one site.

    `first` is the first step that it could take part in, and `replied` the last in which it gave a usable reply, 0 if
    it never did. `now` it is "there", "away", "left out" of the run, or "forgotten", `since` a time in UTC. `why` it
    gave no reply in the last step is empty if it did, or was not asked.
    """

    first: int
    now: str = ""
    since: str = ""
    replied: int = 0
    why: str = ""


@dataclass
class Sites:
    """Content of ``sites.json``: the last step, and the sites in order of id."""

    step: int = 0
    sites: dict[str, Presence] = field(default_factory=dict)


class Attendance(Callback):
    """Callback that writes ``sites.json`` to a run's folder after every step.

    `on_joined` is called when sites have joined, before the step's checkpoint.
    """

    def __init__(self, folder: Path, fed: FlowerFederation, on_joined: Callable[[], None]) -> None:
        self.path, self.fed, self.on_joined = folder / SITES, fed, on_joined
        self.found = Sites()
        self._seats = len(fed.seats)

    def begin(self) -> None:
        if self.path.exists():
            self.found = read_json(self.path, Sites, "; remove it, and the run continues")

    def checkpoint(self, tree: Mapping[str, Any], timing: Timing, line: RecordLine | None) -> None:
        if len(self.fed.seats) > self._seats:
            self._seats = len(self.fed.seats)
            self.on_joined()

    def step(self, line: RecordLine, timing: Timing) -> None:
        self.found.step, there = line["step"], self.fed.roster.there()
        for client, name in enumerate(self.fed.seats):
            site = self.found.sites.setdefault(name, Presence(line["step"]))
            now = "left out" if client in self.fed.left_out else "there" if name in there else "away"
            now = "forgotten" if name in self.fed.roster.forgotten else now
            if site.now != now:
                site.now, site.since = now, datetime.now(UTC).isoformat(timespec="seconds")
            site.replied = line["step"] if client in line["answered"] else site.replied
            site.why = line["missing"].get(str(client), "")
        write_atomically(self.path, _json_of(self.found) + "\n")


def json_of_sites(folder: Path) -> str:
    """Read the sites' attendance as JSON text of `Sites`; raises as `table_of_sites` does."""
    return _json_of(_read(folder))


def table_of_sites(folder: Path) -> str:
    """Format the sites' attendance as a table, from the results of a real federation.

    Raises FedkinError if there is no ``sites.json`` in `folder`, or it is damaged.
    """
    found = _read(folder)
    rows = [
        (name, site.now, site.since, str(site.first), str(site.replied) if site.replied else "never", site.why)
        for name, site in found.sites.items()
    ]
    return f"After step {found.step}:\n{table_text([_COLUMNS, *rows], left=(0, 1, 2, 5))}"


def _read(folder: Path) -> Sites:
    if not (folder / SITES).exists():
        raise FedkinError(
            f"{folder / SITES} is not there; a real federation's server writes it beside its results, after each step."
        )
    return read_json(folder / SITES, Sites, "; a real federation's server writes it beside its results")


def _json_of(found: Sites) -> str:
    return json.dumps(asdict(found), indent=2)
