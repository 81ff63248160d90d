"""Interface of trackers, and the description of a run that they get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fedkin.core.progress import Status
from fedkin.experiment.sections import TrackingSection

Scalar = bool | int | float | str


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
