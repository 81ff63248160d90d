"""All trackers of one run.

They get a step after its checkpoint is on disk, so no tool ever has a step that the run may have to repeat.
``tracking.json`` in the run's folder holds the id by which each tool knows the run, and the last step it got. A run
that resumes is therefore resumed there too, and a tool first gets the steps it missed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path

from fedkin.core import FedkinError
from fedkin.core.errors import require
from fedkin.core.files import read_json, write_atomically
from fedkin.core.progress import Callback, RecordLine, Status, Timing
from fedkin.experiment.config import Config
from fedkin.experiment.run_folder import RECORDS, TRACKED, read_lines, read_timing
from fedkin.experiment.sections import TrackingSection
from fedkin.experiment.tracking.tracker import Subject, Tracker, numbers, parameters, tags

NOTES = "tracking.json"


@dataclass(frozen=True)
class Note:
    """Entry of a tool in ``tracking.json``: the run's id there, and the last step that was sent."""

    known: dict[str, str]
    step: int


@dataclass(frozen=True)
class Tool:
    """Supported tracking tool: its title, the package it needs, and ``module:Class`` of its tracker."""

    title: str
    package: str
    target: str


TOOLS = {
    "tensorboard": Tool("TensorBoard", "tensorboard", "fedkin.experiment.tracking.tensorboard:TensorBoard"),
    "mlflow": Tool("MLflow", "mlflow", "fedkin.experiment.tracking.mlflow:MLflow"),
    "wandb": Tool("Weights & Biases", "wandb", "fedkin.experiment.tracking.wandb:WandB"),
}


def check_installed(settings: TrackingSection) -> None:
    """Check that all tools of ``tracking.to`` are installed; raise FedkinError if one is not installed."""
    for name in settings.to:
        require(f"Tracking to '{name}'", TOOLS[name].package, "tracking")


class Trackers(Callback):
    """Callback that sends a run to the tools of ``tracking.to``; once begun, a failing tool does not stop the run.

    `lost` is called once per tool that could not be reached, with a sentence without a full stop. `anew` starts new
    tracked runs instead of resuming those of ``tracking.json``.
    """

    def __init__(self, config: Config, folder: Path, lost: Callable[[str], None], anew: bool = False) -> None:
        self.config, self.folder, self.lost, self.anew = config, folder, lost, anew
        self._live: dict[str, Tracker] = {}
        self._notes: dict[str, Note] = {}

    def begin(self) -> None:
        """Open all tools, and send the steps they missed.

        Raises FedkinError if a tool cannot be opened for a new tracked run, or ``tracking.json`` is damaged.
        """
        if not self.config.tracking.to:
            return
        self._open()
        clock = {timing["step"]: timing for timing in read_timing(self.folder)}
        for line in read_lines(self.folder / RECORDS):
            self.step(line, clock.get(line["step"], {}))

    def step(self, line: RecordLine, timing: Timing) -> None:
        """Send a step to every tool that does not have it yet."""
        for name, tracker in list(self._live.items()):
            if line["step"] <= self._notes[name].step:
                continue
            try:
                tracker.step(line["step"], numbers(line, timing))
            except Exception as error:
                self._lose(name, error)
            else:
                self._note(name, replace(self._notes[name], step=line["step"]))

    def end(self, status: Status) -> None:
        """Close all tools; upload the result if there is one."""
        if status == "finished" and not (self.folder / TRACKED[0]).exists():
            status = "interrupted"  # tracked afterwards, before the run has finished
        found = [self.folder / file for file in TRACKED] if self.config.tracking.artifacts else []
        for name, tracker in list(self._live.items()):
            try:
                tracker.end(status, [path for path in found if path.exists()] if status == "finished" else [])
            except Exception as error:
                self._lose(name, error)
        self._live = {}

    def _open(self) -> None:
        path = self.folder / NOTES
        self._notes = read_json(path, dict[str, Note], "; remove it to track the run again") if path.exists() else {}
        config, settings = self.config, self.config.tracking
        name = settings.name or self.folder.resolve().name
        subject = Subject(name, self.folder, settings, parameters(config), tags(config))
        for tool in dict.fromkeys(settings.to):
            before = None if self.anew else self._notes.get(tool)
            known = before.known if before else None
            try:
                module, _, made = TOOLS[tool].target.partition(":")
                tracker: Tracker = getattr(import_module(module), made)(subject)
                self._note(tool, Note(tracker.begin(known), before.step if before else 0))
                self._live[tool] = tracker
            except Exception as error:
                if known is None:
                    why = f"{_reason(error)}; fix [tracking] or remove the tool"
                    raise FedkinError(f"{TOOLS[tool].title} cannot track this run: {why}.") from error
                self._lose(tool, error)

    def _lose(self, name: str, error: Exception) -> None:
        """Warn that a tool failed, and continue without it."""
        self._live.pop(name, None)
        step = self._notes[name].step
        self.lost(f"{TOOLS[name].title} could not be reached for {self.folder} after step {step} ({_reason(error)})")

    def _note(self, name: str, note: Note) -> None:
        self._notes[name] = note
        notes = {name: asdict(each) for name, each in self._notes.items()}
        write_atomically(self.folder / NOTES, json.dumps(notes, indent=2) + "\n")


def _reason(error: Exception) -> str:
    """Return the first line of a tool's error message, at most 300 characters."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return text.rstrip(".") if len(text) <= 300 else f"{text[:300]}…"
