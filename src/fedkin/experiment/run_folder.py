"""Files of a run's folder: their names, how they are read, written and appended to; and runs reopened in another."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.files import (
    LOCK,
    append,
    check_empty,
    check_regular,
    folder_lock,
    read_tables,
    similar_path,
    write_atomically,
)
from fedkin.core.payload import owned, save_tree
from fedkin.core.progress import Callback, RecordLine, Timing
from fedkin.experiment.checkpoint import load_checkpoint
from fedkin.experiment.config import SECTIONS, Config, check_section, load_config

RESULT, MODELS, ENCODER = "result.json", "models.safetensors", "encoder.safetensors"
RESULTS = (RESULT, MODELS, ENCODER, "clients.csv", "labels/*.csv")
"""Files of what was found, as patterns."""
KEPT = "checkpoints"
"""Folder of earlier checkpoints, by step, where they are kept."""
CONFIG, RECORDS, TIMING = "config.toml", "records.jsonl", "timing.jsonl"
CLIENTS = "clients.csv"
"""The cluster of every client."""
CHECKPOINT, REPORT = "checkpoint.safetensors", "report.html"
CLIENT_FOLDERS = "clients"
"""Folder with the private folders of clients in Flower's simulation."""
LEDGER = "federation.json"
"""Only in the folder of a real federation, whose clients only its server can reach."""

TRACKED = (RESULT, REPORT)
"""Files that trackers keep; a finished run has both."""

_FIELDS = {"answered": list, "missing": dict, "values": dict, "metrics": dict, "sent": int, "received": int}
"""What a record has besides its step."""

_SECONDS = ("seconds", "client_seconds")

LeftOut = Callable[[str, list[str]], set[str]]
"""Given a folder and the names in it, those that are not copied; see `shutil.copytree`."""


class RunFiles(Callback):
    """Callback that writes a run's records, timing and checkpoints to its folder; its cost per step is constant.

    `steps` are those of the checkpoint that the run resumes from; ``None`` if it starts from the beginning. `on_damage`
    is called with a sentence if ``timing.jsonl`` is incomplete, which affects nothing else. `every` is the interval, in
    steps, of the checkpoints that are kept; 0 keeps the last one only.
    """

    def __init__(
        self, folder: Path, steps: int | None, on_damage: Callable[[str], None] | None = None, every: int = 0
    ) -> None:
        self.folder, self.steps, self.on_damage, self.every = folder, steps, on_damage, every

    def begin(self) -> None:
        """Remove what was written after the checkpoint; raise FedkinError if records are missing."""
        last = -1 if self.steps is None else self.steps
        read_records(self.folder, last)
        _cut(self.folder / RECORDS, last)
        path = self.folder / TIMING
        whole, timings = _whole_lines(path), read_timing(self.folder)
        if (lost := len(whole) - len(timings)) > 0:
            if self.on_damage is not None:
                lines = "1 line" if lost == 1 else f"{lost} lines"
                self.on_damage(f"{path} was damaged: {lines} with times of steps are lost, and nothing else is.")
            write_atomically(path, "".join(json.dumps(line) + "\n" for line in timings))
        _cut(path, last)

    def checkpoint(self, tree: Mapping[str, Any], timing: Timing, line: RecordLine | None) -> None:
        # The checkpoint comes last: a record too many is cut off when the run resumes, one too few cannot be made up.
        for name, entry in ((RECORDS, line), (TIMING, timing)):
            if entry is not None:
                append(self.folder / name, json.dumps(entry) + "\n")
        step = tree["state"]["steps"]
        if self.every and step and step % self.every == 0:
            save_tree(kept_checkpoint(self.folder, step), tree)
        save_tree(self.folder / CHECKPOINT, tree)


def kept_checkpoint(folder: Path, step: int) -> Path:
    """Return the path of the checkpoint that the run in `folder` keeps after `step`."""
    return folder / KEPT / f"{step}.safetensors"


def write_config(folder: Path, config: Config) -> None:
    """Write ``config.toml`` and its checksum, before the first step."""
    write_atomically(folder / CONFIG, config.to_toml())
    write_sums(folder, [CONFIG])


def read_lines(path: Path, last: int | None = None) -> list[dict[str, Any]]:
    """Read the lines of ``records.jsonl``, up to step `last`; empty if the file is absent.

    A half-written last line, as a killed process leaves it, is ignored. Raises FedkinError if a line is not JSON or has
    no step, or the file of a finished run was changed.
    """
    lines = []
    for number, text in enumerate(_whole_lines(path), 1):
        line = _parsed(text)
        if line is None:
            raise FedkinError(f"Line {number} of {path} is damaged: it is not a JSON object with the number of a step.")
        lines.append(line)
    check_sum(path.parent, path.name)
    return lines if last is None else [line for line in lines if line["step"] <= last]


def read_timing(folder: Path) -> list[Timing]:
    """Read the seconds of the steps of the run in `folder`, as far as they are intact."""
    lines = []
    for text in _whole_lines(folder / TIMING):
        line = _parsed(text)
        seconds_of = [line[name] for name in _SECONDS if name in line] if line is not None else []
        if line is not None and seconds_of and all(type(seconds) in (int, float) for seconds in seconds_of):
            lines.append(line)
    return lines


def read_records(folder: Path, steps: int) -> list[RecordLine]:
    """Read the records of the first `steps` steps of the run in `folder`.

    Raises FedkinError if there are fewer, or one is damaged.
    """
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


def run_config(folder: Path, overrides: Sequence[str] = ()) -> Config:
    """Read the configuration of the run in `folder`, which is complete, so that no default is filled in.

    Raises FedkinError if there is none, or it is damaged.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise no_run(folder)
    check_sum(folder, CONFIG, f"put it back as it was, or begin another run with `fedkin run {path}`.")
    tables = read_tables(path)
    for name in tables:
        check_section(tables, name, f"in {path}")
    for name, key in {"seed": "", **dict.fromkeys(SECTIONS, ""), "method": "name", "simulation": "scenario"}.items():
        if name not in tables or (key and key not in tables[name]):
            raise FedkinError(f"{path} is damaged: '{name}' is absent, and a run writes all of its experiment there.")
    return load_config(path, overrides)


def is_finished(folder: Path) -> bool:
    """Return whether the run in `folder` has ended; the report alone is no sign, as unfinished runs may have one."""
    return all((folder / name).is_file() for name in TRACKED)


def no_run(folder: Path) -> FedkinError:
    """Return the error for a `folder` without a run."""
    meant = "" if folder.exists() else similar_path(folder)
    return FedkinError(f"{folder} holds no run: {CONFIG} is absent{f'; {meant}' if meant else '.'}")


def _cut(path: Path, last: int) -> None:
    """Truncate a file of lines after step `last`, without a half-written line."""
    if path.exists():
        os.truncate(
            path, sum(len(line) for line in _whole_lines(path) if (_parsed(line) or {"step": 0})["step"] <= last)
        )


def _parsed(text: bytes) -> dict[str, Any] | None:
    """Parse a line as a JSON object with a step number; ``None`` if it is not one."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) and type(line.get("step")) is int and line["step"] >= 0 else None


def _whole_lines(path: Path) -> list[bytes]:
    check_regular(path)
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return lines[:-1] if lines and not lines[-1].endswith(b"\n") else lines


@contextmanager
def empty_folder(out: Path) -> Iterator[None]:
    """Lock `out`, which is empty or absent, and take away what was written there if that ends in a FedkinError."""
    check_empty(out)
    with folder_lock(out, reentrant=True):
        check_empty(out)
        try:
            yield
        except FedkinError:
            for path in out.iterdir():
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.name != LOCK:
                    path.unlink()
            raise


def finished_checkpoint(folder: Path) -> dict[str, Any]:
    """Load the last checkpoint of a finished run.

    Raises FedkinError if the run has not finished, or the checkpoint is absent or of another version.
    """
    if not is_finished(folder):
        raise FedkinError(f"{folder} has not finished; `fedkin resume {folder}` finishes it.")
    checkpoint = load_checkpoint(folder / CHECKPOINT)
    if checkpoint is None:
        raise FedkinError(f"{folder} is damaged: {CHECKPOINT} is absent.")
    return checkpoint


def reopen(folder: Path, out: Path, config: Config, checkpoint: Mapping[str, Any], left_out: LeftOut) -> None:
    """Copy the run in `folder` to `out` with another configuration and checkpoint; on an error `out` is left as it was.

    `folder` stays as it is; `out` is an `empty_folder`. `checkpoint` is as
    `fedkin.experiment.checkpoint.load_checkpoint` gives it. `left_out` returns the names that are not copied, as the
    `ignore` of `shutil.copytree`.
    """
    out.mkdir(parents=True, exist_ok=True)
    partial = Path(mkdtemp(prefix=f".{out.name}.", suffix=".partial", dir=out.parent))
    try:
        shutil.copytree(folder, partial, ignore=left_out, dirs_exist_ok=True)
        write_config(partial, config)
        save_tree(partial / CHECKPOINT, owned(dict(checkpoint)))
        for path in partial.iterdir():
            path.replace(out / path.name)
        partial.rmdir()
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, shutil.Error):  # one entry for each file that could not be copied
            path, _, reason = error.args[0][0]
            raise FedkinError(f"{path} cannot be copied ({reason}).") from error
        raise


# Checksums of the files in a run's folder, which reveal damaged files before they are used.


SUMS = "SHA256SUMS"


def write_sums(folder: Path, names: Iterable[str]) -> None:
    """Write the checksums of the files in `folder` that match these names or patterns, replacing earlier ones."""
    paths = sorted({path for name in names for path in folder.glob(name) if path.is_file()})
    lines = [f"{sha256_of(path)}  {path.relative_to(folder).as_posix()}\n" for path in paths]
    write_atomically(folder / SUMS, "".join(lines))


def check_sum(folder: Path, name: str, remedy: str = "") -> None:
    """Check the file `name` in `folder` against its checksum; a file without a checksum, or an absent one, passes.

    `folder` is a run's, or a client's share of one, and `name` the path from there. `remedy` says what to do about a
    damaged file, at the end of the error message. Raises FedkinError if the checksum differs, or the checksums cannot
    be read.
    """
    path, expected = folder / name, _sums_of(folder).get(name)
    if expected is None or not path.is_file():
        return
    try:
        digest = sha256_of(path)
    except OSError as error:
        raise FedkinError(f"Cannot read {path}: {error.strerror}.") from error
    if digest != expected:
        raise FedkinError(f"{path} is damaged: its checksum is not the one in {SUMS}{f'; {remedy}' if remedy else '.'}")


def _sums_of(folder: Path) -> dict[str, str]:
    """Read the checksums by file name; empty without a file of checksums, as in folders of earlier versions."""
    path = folder / SUMS
    check_regular(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _unreadable(path) from error
    matches = [re.fullmatch(r"([0-9a-f]{64})  (.+)", line) for line in lines]
    if not all(matches):
        raise _unreadable(path)
    return {line[2]: line[1] for line in matches if line is not None}


def _unreadable(path: Path) -> FedkinError:
    return FedkinError(f"{path} is damaged; remove it if the other files are known to be whole.")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 digest of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
