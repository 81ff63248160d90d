"""Interface of trackers, and what they get of a run: its description, and its records as flat names and numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fedkin import __version__
from fedkin.core.progress import Status
from fedkin.experiment.config import Config
from fedkin.experiment.option_models import flat
from fedkin.experiment.sections import TrackingSection

Scalar = bool | int | float | str

ALWAYS = "traffic/received_bytes"
"""A number that every step has."""


@dataclass(frozen=True)
class Subject:
    """Description of the run that is tracked.

    `name` is its name in the tool, and `settings` the section ``[tracking]``. `parameters` are the experiment, with
    keys such as ``"method.local_epochs"``; `tags` are what distinguishes runs: method, data, scenario, engine, seed and
    fedkin's version.
    """

    name: str
    folder: Path
    settings: TrackingSection
    parameters: dict[str, Scalar]
    tags: dict[str, str]


class Tracker(Protocol):
    """Interface of a tracking tool; any exception that a method raises means that the tool could not be reached."""

    def begin(self, known: Mapping[str, str] | None) -> dict[str, str]:
        """Start a tracked run, or resume the one that an earlier process began.

        Return what a later process needs to resume it, without secrets, for it is written to the folder. `known` is
        what `begin` returned to the earlier process; ``None`` for the first.
        """
        ...

    def step(self, step: int, numbers: Mapping[str, float]) -> None:
        """Send the numbers of a step, the first of which is 1; on return they have left this process."""
        ...

    def end(self, status: Status, files: Sequence[Path]) -> None:
        """Close the tracked run, and upload `files` if the tool can store them."""
        ...


def numbers(line: Mapping[str, Any], timing: Mapping[str, Any]) -> dict[str, float]:
    """Return the scalar values of a step by name, from its lines of ``records.jsonl`` and ``timing.jsonl``.

    They are ``metrics/...`` and ``values/...`` as the record has them, without what is no finite number;
    ``clients/answered``, ``clients/missing``; bytes since the start of the run, ``traffic/sent_bytes`` and
    ``traffic/received_bytes``; and ``time/seconds``, ``time/client_seconds`` where they are known: `timing` may be
    empty.
    """
    found = {f"{part}/{name}": value for part in ("metrics", "values") for name, value in line[part].items()}
    found["clients/answered"], found["clients/missing"] = len(line["answered"]), len(line["missing"])
    found["traffic/sent_bytes"], found[ALWAYS] = line["sent"], line["received"]
    found |= {f"time/{name}": timing[name] for name in ("seconds", "client_seconds") if name in timing}
    plain = {name: value for name, value in found.items() if isinstance(value, int | float)}
    return {name: float(value) for name, value in plain.items() if not isinstance(value, bool)}


def parameters(config: Config) -> dict[str, Scalar]:
    """Return the configuration with flat keys such as ``"method.local_epochs"``; lists as JSON, no ``[tracking]``."""
    tables = {name: table for name, table in config.tables.items() if name != "tracking"}
    return {path: json.dumps(value) if isinstance(value, list) else value for path, value in flat(tables)}


def tags(config: Config) -> dict[str, str]:
    """Return the tags that tell runs apart: method, data, scenario, engine, seed and version."""
    return {
        "method": config.method_name,
        "data": config.data.source,
        "scenario": str(config.tables["scenario"]["name"]),
        "engine": config.engine.name,
        "seed": str(config.seed),
        "fedkin": __version__,
    }
