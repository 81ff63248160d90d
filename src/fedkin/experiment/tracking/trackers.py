"""All tools that one run is told to.

A run tells them of a step after the step's checkpoint is on disk, so no tool ever has one that the run may have to
repeat. ``tracking.json`` in the run's folder says under which name each tool knows the run and which step it got last.
A run that goes on therefore goes on there too, and a tool first gets what it missed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.files import write_atomically
from fedkin.experiment.config import Config
from fedkin.experiment.sections import TrackingSection
from fedkin.experiment.tracking.tracker import Status, Subject, Tracker
from fedkin.experiment.tracking.tracking_record import numbers, parameters, tags

NOTES = "tracking.json"


@dataclass(frozen=True)
class Tool:
    """What a name stands for: what people call it, the package it needs, and ``module:Class`` of its tracker."""

    title: str
    package: str
    target: str


TOOLS = {
    "tensorboard": Tool("TensorBoard", "tensorboard", "fedkin.experiment.tracking.tensorboard:TensorBoard"),
    "mlflow": Tool("MLflow", "mlflow", "fedkin.experiment.tracking.mlflow:MLflow"),
    "wandb": Tool("Weights & Biases", "wandb", "fedkin.experiment.tracking.wandb:WandB"),
}


def check_installed(settings: TrackingSection) -> None:
    """See that all tools of ``tracking.to`` are there.

    Raises
    ------
    FedkinError
        If one is not installed.
    """
    for name in settings.to:
        if find_spec(TOOLS[name].package) is None:
            raise FedkinError(
                f"'tracking.to' names '{name}', which is not installed: pip install 'fedkin[tracking]', or "
                f"{TOOLS[name].package} alone."
            )


class Trackers:
    """The tools of ``tracking.to``; a run that has begun goes on without one that fails.

    Parameters
    ----------
    config : Config
        The experiment.
    folder : Path
        The run's.
    files : sequence of str
        Files of the folder that tools are to keep at the end, if they are there; the first says that the run is done.
    lost : callable
        Told once, when a tool could not be told of a step, by a sentence without a full stop.
    anew : bool
        Whether to start tracked runs of their own instead of going on with those of ``tracking.json``.
    """

    def __init__(
        self, config: Config, folder: Path, files: Sequence[str], lost: Callable[[str], None], anew: bool = False
    ) -> None:
        self.config, self.folder, self.files, self.lost, self.anew = config, folder, files, lost, anew
        self._live: dict[str, Tracker] = {}
        self._notes: dict[str, Any] = {}

    @contextmanager
    def at_work(self, records: Sequence[str] = (), timing: Sequence[str] = ()) -> Iterator[None]:
        """Open all tools and tell them of steps they missed; close them at the end of the context, however it ends.

        Parameters
        ----------
        records, timing : sequence of str
            Lines of ``records.jsonl`` and ``timing.jsonl`` of the steps that were made before.

        Raises
        ------
        FedkinError
            If a tool that did not know the run yet cannot be opened, or ``tracking.json`` is not as fedkin wrote it.
        """
        if not self.config.tracking.to:
            yield
            return
        try:
            self._open()
            clock = {line["step"]: line for line in map(json.loads, timing)}
            for line in map(json.loads, records):
                self.step(line, clock.get(line["step"], {}))
            yield
        except KeyboardInterrupt:
            self._close("interrupted")
            raise
        except BaseException:
            self._close("failed")
            raise
        self._close("finished" if (self.folder / self.files[0]).exists() else "interrupted")

    def step(self, line: Mapping[str, Any], timing: Mapping[str, Any]) -> None:
        """Tell every tool of a step it does not have yet.

        Parameters
        ----------
        line, timing : dict
            The step's line of ``records.jsonl`` and of ``timing.jsonl``.
        """
        for name, tracker in list(self._live.items()):
            if line["step"] <= self._notes[name]["step"]:
                continue
            try:
                tracker.step(line["step"], numbers(line, timing))
            except Exception as error:
                self._lose(name, error)
            else:
                self._note(name, step=line["step"])

    def _open(self) -> None:
        self._notes = _read(self.folder / NOTES)
        config, settings = self.config, self.config.tracking
        name = settings.name or self.folder.resolve().name
        subject = Subject(name, self.folder, settings, parameters(config), tags(config))
        for tool in dict.fromkeys(settings.to):
            known = None if self.anew else self._notes.get(tool, {}).get("known")
            try:
                tracker = _made(tool, subject)
                self._note(tool, known=tracker.begin(known), step=0 if known is None else self._notes[tool]["step"])
                self._live[tool] = tracker
            except Exception as error:
                if known is None:
                    raise _refusal(TOOLS[tool], error) from error
                self._lose(tool, error)

    def _close(self, status: Status) -> None:
        found = [self.folder / file for file in self.files] if self.config.tracking.artifacts else []
        for name, tracker in list(self._live.items()):
            try:
                tracker.end(status, [path for path in found if path.exists()] if status == "finished" else [])
            except Exception as error:
                self._lose(name, error)
        self._live = {}

    def _lose(self, name: str, error: Exception) -> None:
        """From now on do without a tool."""
        self._live.pop(name, None)
        step = self._notes[name]["step"]
        self.lost(f"{TOOLS[name].title} could not be told of {self.folder} after step {step} ({_reason(error)})")

    def _note(self, name: str, **entries: Any) -> None:
        self._notes[name] = {**self._notes.get(name, {}), **entries}
        write_atomically(self.folder / NOTES, json.dumps(self._notes, indent=2) + "\n")


def _made(tool: str, subject: Subject) -> Tracker:
    module, _, name = TOOLS[tool].target.partition(":")
    tracker: Tracker = getattr(import_module(module), name)(subject)
    return tracker


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        read = {name: {"known": dict(note["known"]), "step": int(note["step"])} for name, note in _loaded(path).items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FedkinError(f"{path} is not as fedkin wrote it; without it, the run is tracked anew.") from error
    return read


def _loaded(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def _refusal(tool: Tool, error: Exception) -> FedkinError:
    return FedkinError(f"{tool.title} cannot track this run: {_reason(error)}; mend [tracking], or leave the tool out.")


def _reason(error: Exception) -> str:
    """What a tool complains of, at a length that people read."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return text.rstrip(".") if len(text) <= 300 else f"{text[:300]}…"
