"""TensorBoard tracker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.progress import Status
from fedkin.experiment.tracking.tracker import Subject

FOLDER = "tensorboard"


class TensorBoard:
    """Tracker that writes scalars, hyper-parameters and tags to a TensorBoard event file.

    The file is in the run's folder or below ``tracking.folder``. Nothing is written before the first step. A process
    that resumes writes a file of its own, which makes TensorBoard ignore this step and later ones of older files.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.folder = subject.folder / FOLDER
        self._resumes = False
        self._writer: Any = None
        self._session_end: Any = None

    def begin(self, known: Mapping[str, str] | None) -> dict[str, str]:
        """Check that the folder can be written and belongs to this run alone."""
        outside = self.subject.settings.folder
        self._resumes = known is not None
        if known and "folder" in known:
            self.folder = Path(known["folder"])
        elif outside is not None:
            self.folder = Path(outside).resolve() / self.subject.name
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._resumes and any(self.folder.glob("events.out.tfevents.*")):
            raise FedkinError(f"{self.folder} holds events already; give another tracking.folder or tracking.name")
        return {"folder": str(self.folder)} if outside is not None else {}

    def step(self, step: int, numbers: Mapping[str, float]) -> None:
        """Write a step's scalars to disk."""
        if self._writer is None:
            self._open(step, numbers)
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def end(self, status: Status, files: Sequence[Path]) -> None:
        """Close the event file, if there was a step; TensorBoard has no place for other files."""
        if self._writer is not None:
            self._writer.file_writer.add_summary(self._session_end)
            self._writer.close()
        elif not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _open(self, step: int, numbers: Mapping[str, float]) -> None:
        from torch.utils.tensorboard import SummaryWriter
        from torch.utils.tensorboard.summary import hparams

        self._writer = SummaryWriter(str(self.folder), purge_step=step if self._resumes else None)
        judged = {name: 0.0 for name in numbers if name.startswith("metrics/")}
        experiment, session_start, self._session_end = hparams(self.subject.parameters, judged)
        self._writer.file_writer.add_summary(experiment)
        self._writer.file_writer.add_summary(session_start)
        rows = "".join(f"| {name} | {value} |\n" for name, value in self.subject.tags.items())
        self._writer.add_text("run", f"| | |\n|---|---|\n{rows}", step)
