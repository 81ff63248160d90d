"""Tracked runs of the toy method."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fedkin.core.progress import Progress
from fedkin.experiment.config import load_config
from fedkin.experiment.run import RunOutcome, execute
from fedkin.experiment.tracking import Subject
from toy_runs import OPTIONS

OWN = ("config.toml", "SHA256SUMS", "timing.jsonl", "tracking.json")
"""Files in which a tracked run may differ from one that is not."""


class Warned(Progress):
    """Keeps what it is warned of."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def warn(self, text: str) -> None:
        self.texts.append(text)


class Listens:
    """Stands in for a tool: keeps what it gets in `calls`, and fails where `fails` says so."""

    title = "Listener"
    calls: ClassVar[list[Any]] = []
    fails: ClassVar[Callable[[str, int], bool]]

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    def begin(self, known):
        self._may_fail("begin")
        self.calls.append(("begin", self.subject.name, known))
        return {"id": "seven"}

    def step(self, step, numbers):
        self._may_fail("step", step)
        self.calls.append(step)

    def end(self, status, files):
        self._may_fail("end")
        self.calls.append((status, [file.name for file in files]))

    @classmethod
    def _may_fail(cls, call: str, step: int = 0) -> None:
        if cls.fails(call, step):
            raise ConnectionError("Nobody there.\nAt all.")


def run(folder: Path, *overrides: str, progress: Progress | None = None) -> RunOutcome:
    return execute(load_config("toy", [*OPTIONS, *overrides]), folder, progress)


def interrupt(folder: Path, after: int, monkeypatch: pytest.MonkeyPatch, *overrides: str) -> None:
    """Run until Ctrl-C in the step after step `after`."""
    with monkeypatch.context() as patch:
        patch.setenv("TOY_INTERRUPT", str(after))
        with pytest.raises(KeyboardInterrupt):
            run(folder, *overrides)


def results(folder: Path) -> dict[str, bytes]:
    """What a run found and how, which no tracking may change."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: content for name, content in found.items() if name not in OWN and "tfevents" not in name}
