"""What a tool is told of a run, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from fedkin.experiment.sections import TrackingSection

Status = Literal["finished", "failed", "interrupted"]
Scalar = bool | int | float | str


@dataclass(frozen=True)
class Subject:
    """The run that is tracked.

    Attributes
    ----------
    name : str
        What the tool shows it as.
    folder : Path
        The run's.
    settings : Tracking
        The section ``[tracking]``.
    parameters : dict
        The experiment, with keys such as ``"method.local_epochs"``.
    tags : dict
        What runs are told apart by: method, data, scenario, engine, seed and fedkin's version.
    """

    name: str
    folder: Path
    settings: TrackingSection
    parameters: dict[str, Scalar]
    tags: dict[str, str]


class Tracker(Protocol):
    """One tool. Made from a `Subject`; any exception of its methods means that the tool could not be told."""

    def begin(self, known: Mapping[str, str] | None) -> dict[str, str]:
        """Start a tracked run, or go on with the one that an earlier process began.

        Parameters
        ----------
        known : dict or None
            What `begin` returned to that process; ``None`` for the first.

        Returns
        -------
        dict
            What a later process needs to go on with this tracked run; without secrets, for it is written to the folder.
        """
        ...

    def step(self, step: int, numbers: Mapping[str, float]) -> None:
        """Take the numbers of a step, the first of which is 1; on return they are out of this process."""
        ...

    def end(self, status: Status, files: Sequence[Path]) -> None:
        """Close the tracked run, and keep `files` with it where the tool can."""
        ...
