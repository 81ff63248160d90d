"""Weights & Biases tracker."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkin.core.progress import Status
from fedkin.experiment.tracking.tracker import Subject


class WandB:
    """Tracker that logs numbers, configuration, tags and an artifact to Weights & Biases (W&B).

    The project is ``tracking.project``, by default ``WANDB_PROJECT`` or "fedkin". W&B's own files are in the folder
    ``wandb`` in ``tracking.folder``, by default where it puts them. All else is configured by W&B's own variables, such
    as ``WANDB_MODE=offline`` for files that are uploaded later.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._run: Any = None

    def begin(self, known: Mapping[str, str] | None) -> dict[str, str]:
        """Start the tracked run, or resume it."""
        import wandb

        subject = self.subject
        folder = subject.settings.folder
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        run = known["run"] if known else secrets.token_hex(4)
        self._run = wandb.init(
            project=subject.settings.project or os.environ.get("WANDB_PROJECT") or "fedkin",
            name=subject.name,
            id=run,
            resume="allow",
            config=subject.parameters,
            tags=[f"{name}: {value}"[:64] for name, value in subject.tags.items()],
            dir=folder,
            settings=wandb.Settings(console="off"),
        )
        return {"run": run}

    def step(self, step: int, numbers: Mapping[str, float]) -> None:
        """Send a step's numbers; W&B drops those it has already."""
        self._run.log(dict(numbers), step=step)

    def end(self, status: Status, files: Sequence[Path]) -> None:
        """Upload the files as one artifact, and close the tracked run."""
        import wandb

        if files:
            artifact = wandb.Artifact(f"run-{self._run.id}", type="fedkin-run")
            for file in files:
                artifact.add_file(str(file))
            self._run.log_artifact(artifact)
        self._run.finish(exit_code=0 if status == "finished" else 1)
