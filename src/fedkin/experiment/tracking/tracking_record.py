"""Records and configuration of a run as flat names and numbers for trackers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fedkin import __version__
from fedkin.experiment.config import Config
from fedkin.experiment.option_models import flat
from fedkin.experiment.tracking.tracker import Scalar

ALWAYS = "traffic/received_bytes"
"""A number that every step has."""


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
