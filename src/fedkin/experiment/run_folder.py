"""Files of a run's folder: their names, how they are appended to, and how they are read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.files import append
from fedkin.core.progress import Callback, RecordLine, Timing
from fedkin.core.trees import save_tree
from fedkin.experiment.outputs import RESULT

CONFIG, RECORDS, TIMING, CHECKPOINT, REPORT = (
    "config.toml",
    "records.jsonl",
    "timing.jsonl",
    "checkpoint.safetensors",
    "report.html",
)
TRACKED = (RESULT, REPORT)
"""Files that trackers keep; the first is there when the run is done."""


class RunFiles(Callback):
    """Keeps a run's records, timing and checkpoints in its folder; a step costs the same however many came before.

    Parameters
    ----------
    folder : Path
        The run's.
    steps : int or None
        Steps of the checkpoint that the run resumes from; ``None`` if it starts from the beginning.
    """

    def __init__(self, folder: Path, steps: int | None) -> None:
        self.folder, self.steps = folder, steps

    def begin(self) -> None:
        """Drop what was written after the checkpoint.

        Raises
        ------
        FedkinError
            If records are missing.
        """
        last = -1 if self.steps is None else self.steps
        read_records(self.folder, last)
        for name in (RECORDS, TIMING):
            _cut(self.folder / name, last)

    def checkpoint(self, tree: Mapping[str, Any], timing: Timing, line: RecordLine | None) -> None:
        # The checkpoint comes last: a record too many is cut off when the run resumes, one too few cannot be made up.
        for name, entry in ((RECORDS, line), (TIMING, timing)):
            if entry is not None:
                append(self.folder / name, json.dumps(entry) + "\n")
        save_tree(self.folder / CHECKPOINT, tree)


def read_lines(path: Path, last: int | None = None) -> list[dict[str, Any]]:
    """Lines of ``records.jsonl`` or ``timing.jsonl``, up to step `last`; none if the file is absent.

    A line that a killed process has left half-written is left out.

    Raises
    ------
    FedkinError
        If a line is not JSON.
    """
    try:
        lines = [json.loads(line) for line in _whole_lines(path)]
    except ValueError as error:
        raise FedkinError(f"{path} has a line that is not JSON ({error}); a run writes one object per line.") from error
    return lines if last is None else [line for line in lines if line["step"] <= last]


def read_records(folder: Path, steps: int) -> list[RecordLine]:
    """Records of the first `steps` steps of the run in `folder`.

    Raises
    ------
    FedkinError
        If there are fewer.
    """
    records = read_lines(folder / RECORDS, steps)
    if len(records) < steps:
        raise FedkinError(
            f"{folder / RECORDS} has {len(records)} lines where the checkpoint has {steps} steps; "
            "the run cannot be resumed."
        )
    return records


def is_finished(folder: Path) -> bool:
    """Whether the run in `folder` has ended; what it writes last is its page, which unfinished runs may have, too."""
    return all((folder / name).is_file() for name in TRACKED)


def no_run(folder: Path) -> FedkinError:
    """The error that `folder` holds no run."""
    return FedkinError(f"{folder} holds no run: {CONFIG} is absent.")


def _cut(path: Path, last: int) -> None:
    """Cut off half a line and those of steps after `last`."""
    if path.exists():
        os.truncate(path, sum(len(line) for line in _whole_lines(path) if json.loads(line)["step"] <= last))


def _whole_lines(path: Path) -> list[bytes]:
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return lines[:-1] if lines and not lines[-1].endswith(b"\n") else lines
