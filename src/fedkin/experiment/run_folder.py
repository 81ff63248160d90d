"""Files of a run's folder: their names, checkpoints and checksums, how they are read, written and appended to."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_origin, get_type_hints

from fedkin.core import Federation, FedkinError, State
from fedkin.core.files import append, check_regular, read_tables, similar_path, write_atomically
from fedkin.core.method import SENT
from fedkin.core.payload import load_tree, owned, save_tree
from fedkin.core.runner import Callback, RecordLine, Timing
from fedkin.engines.local import LocalFederation
from fedkin.experiment.config import SECTIONS, Config, flat, load_config

CONFIG, RECORDS, TIMING, CHECKPOINT = "config.toml", "records.jsonl", "timing.jsonl", "checkpoint.safetensors"
RESULT, MODELS, CLIENTS = "result.json", "models.safetensors", "clients.csv"
RESULTS = (RESULT, MODELS, CLIENTS, "labels/*.csv")
"""Files of what was found, as patterns."""
REPORT, SUMS, MESSAGES = "report.html", "SHA256SUMS", "messages.json"
CLIENT_FOLDERS = "clients"
"""Folder with the private folders of clients in Flower's simulation."""
LEDGER = "federation.json"
"""Only in the folder of a real federation, whose clients only its server can reach."""
FORMAT = 2
"""Format of a run's folder; it grows when a version of fedkin cannot use what earlier ones wrote."""

_FIELDS = {"answered": list, "missing": dict, "values": dict, "metrics": dict, "sent": int, "received": int}
"""What a record has besides its step."""

S = TypeVar("S", bound=State)


# Checkpoints: each is one safetensors file, replaced in one move, so that a killed run finds the last complete one.


def snapshot(fed: Federation, state: State) -> dict[str, Any]:
    """Return everything a run needs to resume, as a tree that shares no memory with it (`owned`).

    Of clients that is what those of this process remember; others keep it on their own disks.
    """
    clients = fed.clients if isinstance(fed, LocalFederation) else {}
    memories = {str(client): dict(each.state) for client, each in clients.items()}
    return dict(owned({"format": FORMAT, "state": state.tree(), **fed.tree(), "clients": memories}))


def is_update(checkpoint: Mapping[str, Any] | None) -> bool:
    """Return whether a run updates another, by its `checkpoint`: clients remember of which rows they have sent some."""
    return checkpoint is not None and any(SENT in each for each in checkpoint["clients"].values())


def load_checkpoint(path: Path) -> dict[str, Any] | None:
    """Load the checkpoint at `path` as a tree, ``None`` without a file; raise FedkinError for another version's."""
    if not path.exists():
        return None
    tree: dict[str, Any] = load_tree(path)
    check_format(path.parent, tree)
    return tree


def check_format(folder: Path, tree: Mapping[str, Any]) -> None:
    """Raise FedkinError if `tree`, the content of a file in `folder`, is not of this version's format."""
    if (number := tree.get("format", 1)) != FORMAT:
        raise FedkinError(
            f"{folder} was written by another version of fedkin (format {number}; this version needs {FORMAT}); use "
            "the version that wrote it, or run the experiment again."
        )


def restore_checkpoint(fed: Federation, state_type: type[S], tree: Mapping[str, Any]) -> S:
    """Restore `fed` to the snapshot `tree`, and return the method's state; both take over the tree's tensors.

    A run calls it after every step, not only when it resumes. Each step then starts from exactly what a checkpoint
    gives back, including order of keys and memory layout, and resuming is exact by construction.
    """
    fed.restore(tree)
    if isinstance(fed, LocalFederation):  # on Flower each site has its own state
        for number, client in fed.clients.items():
            client.state = tree["clients"][str(number)]
    return restore(state_type, tree["state"])


def restore(state_type: type[S], tree: Mapping[str, Any]) -> S:
    """Build a state of class `state_type` from the tree of its fields; raise FedkinError if it has others."""
    names = {field.name for field in dataclasses.fields(state_type)}
    if names != tree.keys():
        raise FedkinError(
            f"The checkpoint's fields differ from {state_type.__name__}'s in {', '.join(sorted(names ^ tree.keys()))}; "
            "resume it with the version of fedkin that wrote it."
        )
    kinds = get_type_hints(state_type)
    values: dict[str, Any] = {
        name: tuple(value) if get_origin(kinds[name]) is tuple else value for name, value in tree.items()
    }
    return state_type(**values)


# Records, one line per step.


class RunFiles(Callback):
    """Callback that writes a run's records, timing and checkpoints to its folder; its cost per step is constant.

    `steps` are those of the checkpoint that the run resumes from; ``None`` if it starts from the beginning.
    """

    def __init__(self, folder: Path, steps: int | None) -> None:
        self.folder, self.last = folder, -1 if steps is None else steps

    def begin(self) -> None:
        """Remove what was written after the checkpoint; raise FedkinError if records are missing."""
        read_records(self.folder, self.last)
        for name in (RECORDS, TIMING):
            if (path := self.folder / name).exists():
                write_atomically(
                    path, b"".join(text for text, line in _lines(path) if line and line["step"] <= self.last)
                )

    def checkpoint(self, tree: Mapping[str, Any], timing: Timing, line: RecordLine | None) -> None:
        # The checkpoint comes last: a record too many is cut off when the run resumes, one too few cannot be made up.
        for name, entry in ((RECORDS, line), (TIMING, timing)):
            if entry is not None:
                append(self.folder / name, json.dumps(entry) + "\n")
        save_tree(self.folder / CHECKPOINT, tree)


def read_lines(path: Path, last: int | None = None) -> list[dict[str, Any]]:
    """Read the lines of ``records.jsonl``, up to step `last` and without one that a killed process left half written.

    Raises FedkinError if a line is not JSON or has no step, or the file of a finished run was changed.
    """
    lines = []
    for number, (_, line) in enumerate(_lines(path), 1):
        if line is None:
            raise FedkinError(f"Line {number} of {path} is damaged: it is not a JSON object with the number of a step.")
        lines.append(line)
    check_sum(path.parent, path.name)
    return lines if last is None else [line for line in lines if line["step"] <= last]


def read_timing(folder: Path) -> list[Timing]:
    """Read the seconds of the steps of the run in `folder`, as far as they are intact."""
    timings = []
    for _, line in _lines(folder / TIMING):
        seconds = [line[name] for name in ("seconds", "client_seconds") if name in line] if line is not None else []
        if line is not None and seconds and all(type(value) in (int, float) for value in seconds):
            timings.append(line)
    return timings


def read_records(folder: Path, steps: int) -> list[RecordLine]:
    """Read the records of the first `steps` steps of a run; raise FedkinError if there are fewer, or one is damaged."""
    records = read_lines(folder / RECORDS, steps)
    if len(records) < steps:
        raise FedkinError(
            f"{folder / RECORDS} has {len(records)} lines where the checkpoint has {steps} steps; "
            "the run cannot be resumed."
        )
    for number, line in enumerate(records, 1):
        wrong = next((name for name, kind in _FIELDS.items() if not isinstance(line.get(name), kind)), None)
        if wrong is not None or line["step"] != number:
            place = f"Line {number} of {folder / RECORDS}"
            raise FedkinError(f"{place} is damaged: '{wrong or 'step'}' is not what a run writes.")
    return records


def _lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Yield each whole line of a file, and the JSON object with the number of a step that it is; ``None`` if none."""
    check_regular(path)
    for text in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
        if not text.endswith(b"\n"):
            return
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):  # damaged, perhaps nested beyond what the parser takes
            line = None
        is_step = isinstance(line, dict) and type(line.get("step")) is int and line["step"] >= 0
        yield text, line if is_step else None


# A run's experiment.


def write_config(folder: Path, config: Config) -> None:
    """Write ``config.toml`` and its checksum, before the first step."""
    write_atomically(folder / CONFIG, config.to_toml())
    write_sums(folder, [CONFIG])


def run_config(folder: Path, overrides: Sequence[str] = ()) -> Config:
    """Read a run's complete configuration; raise FedkinError if it is absent, damaged or of another version."""
    path = folder / CONFIG
    if not path.is_file():
        raise no_run(folder)
    check_sum(folder, CONFIG, f"put it back as it was, or begin another run with `fedkin run {path}`.")
    tables = read_tables(path)
    paths = {path for path, _ in flat(tables)}
    if tables.keys() != {"seed", *SECTIONS} or not {"seed", "method.name", "simulation.scenario"} <= paths:
        raise FedkinError(f"{path} is damaged, or of another version of fedkin; run the experiment again.")
    return load_config(path, overrides)


def is_finished(folder: Path) -> bool:
    """Return whether the run in `folder` has ended; the report alone is no sign, as unfinished runs may have one."""
    return all((folder / name).is_file() for name in (RESULT, REPORT))


def no_run(folder: Path) -> FedkinError:
    """Return the error for a `folder` without a run."""
    meant = "" if folder.exists() else similar_path(folder)
    return FedkinError(f"{folder} holds no run: {CONFIG} is absent{f'; {meant}' if meant else '.'}")


# Checksums of the files in a run's folder, which reveal damaged files before they are used.


def write_sums(folder: Path, names: Iterable[str]) -> None:
    """Write the checksums of the files in `folder` that match these names or patterns, replacing earlier ones."""
    paths = sorted({path for name in names for path in folder.glob(name) if path.is_file()})
    lines = [f"{sha256_of(path)}  {path.relative_to(folder).as_posix()}\n" for path in paths]
    write_atomically(folder / SUMS, "".join(lines))


def check_sum(folder: Path, name: str, remedy: str = "") -> None:
    """Raise FedkinError, which ends in a `remedy`, if the checksum of the file `name` in a folder differs.

    A file without a checksum, or an absent one, passes.
    """
    sums, path = folder / SUMS, folder / name
    for each in (sums, path):
        check_regular(each)
    if not sums.exists() or not path.exists():
        return
    try:
        lines = [line.split("  ", 1) for line in sums.read_text(encoding="utf-8").splitlines()]
        expected = {name: digest for digest, name in lines}.get(name)
        is_whole = expected is None or sha256_of(path) == expected
    except OSError as error:
        raise FedkinError(f"Cannot read {error.filename}: {error.strerror}.") from error
    except ValueError as error:
        raise FedkinError(f"{sums} is damaged; remove it if the other files are known to be whole.") from error
    if not is_whole:
        raise FedkinError(f"{path} is damaged: its checksum is not the one in {SUMS}{f'; {remedy}' if remedy else '.'}")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 digest of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
