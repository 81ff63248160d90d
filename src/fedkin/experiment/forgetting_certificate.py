"""Certificate of forgetting: what was removed and how, which files still hold something, and what is not covered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedkin.core.files import read_json, write_atomically
from fedkin.data.preparing.preparation import Preparation
from fedkin.experiment.checksums import sha256_of
from fedkin.experiment.client_names import short_names
from fedkin.experiment.config import Config
from fedkin.experiment.outputs import MODELS, RESULT
from fedkin.experiment.run_folder import CHECKPOINT, CONFIG, LEDGER, RECORDS

FORGOTTEN = "forgotten.json"
_HASHED = (CONFIG, RECORDS, CHECKPOINT, RESULT, MODELS)
_TEXTS = (".toml", ".jsonl", ".json", ".csv", ".html")
_NOT_COVERED = [
    "copies of the run: backups, trackers, reports, models and predictions that were handed out",
    "what other clients have received before and kept",
    "the client's own data, which nobody but the client deletes",
    "what the run before and the run after show together: the difference is of this client",
]


def hashes_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of those files of a run that can contain something of a client."""
    return {name: sha256_of(folder / name) for name in _HASHED if (folder / name).is_file()}


def certificates_of(folder: Path) -> list[dict[str, Any]]:
    """Read the certificates in a run's folder, the oldest first; empty if no client was forgotten.

    Raises FedkinError if they cannot be read.
    """
    path = folder / FORGOTTEN
    return read_json(path, list[dict[str, Any]]) if path.exists() else []


def write_certificate(out: Path, earlier: Sequence[dict[str, Any]], certificate: dict[str, Any]) -> None:
    """Write ``forgotten.json``: the `earlier` certificates, and this one with the hashes of the files in `out`."""
    whole = [*earlier, {**certificate, "after": hashes_of(out)}]
    write_atomically(out / FORGOTTEN, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")


def not_covered(before: str, replaced: bool) -> list[str]:
    """List what no certificate covers, such as the old run in the folder `before` unless it was replaced."""
    return [*([] if replaced else [f"the run {before}, which holds all it held"]), *_NOT_COVERED]


def remains(
    out: Path, config: Config, clients: Sequence[int], names: Sequence[str], steps: int, preparation: Preparation | None
) -> list[dict[str, str]]:
    """List what the files in `out`, the folder of a run without `clients`, still hold of these: ``file`` and ``what``.

    `clients` are positions; `names` are given for all clients. `steps` is the number of steps that were kept, not
    repeated; `preparation` says how samples were prepared, if the forgotten clients took part in that and in the kept
    steps.
    """
    found = [{"file": CONFIG, "what": "its name or position, by which the run leaves it out"}]
    called = [name for at in clients for name in {*names[at : at + 1], *short_names(names)[at : at + 1]}]
    texts = sorted(path for path in out.rglob("*") if path.is_file() and path.suffix in _TEXTS)
    named = [path for path in texts if path.name not in (CONFIG, LEDGER, FORGOTTEN)]
    found += [
        {"file": path.relative_to(out).as_posix(), "what": "its name"}
        for path in named
        if any(name in path.read_text(encoding="utf-8", errors="replace") for name in called)
    ]
    if (out / LEDGER).is_file():
        found.append({"file": LEDGER, "what": "its name, identity and key, which keep its seat from others"})
    if steps:
        when = "step 1" if steps == 1 else f"steps 1 to {steps}"
        what = (
            f"scores of {when} on a test of which its samples are a part, if there is one"
            if preparation is None
            else f"that it answered in {when}, and bytes of its replies"
        )
        found.append({"file": RECORDS, "what": what})
    kept = [] if preparation is None else kept_of(type(config.method), preparation)
    files = [name for name in (CHECKPOINT, RESULT, MODELS) if (out / name).is_file()]
    return found + [{"file": name, "what": what} for what in kept for name in files]


def kept_of(method: type[Any], preparation: Preparation) -> list[str]:
    """Describe what remains of a client that the method has left out exactly."""
    kept = [method.keeps] if method.keeps else []
    if preparation.mode in ("standard", "common"):
        kept.append("how samples are scaled and encoded, found from sums over all clients' samples")
    return kept
