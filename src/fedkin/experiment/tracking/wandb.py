"""Weights & Biases: a run in a project, on its servers, one's own, or in files for later (``WANDB_MODE=offline``)."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkin.core.progress import Status
from fedkin.experiment.tracking.tracker import Subject


class WandB:
    """Numbers by step, the experiment as the run's configuration, tags, and files as an artifact.

    ``tracking.project`` says where, else ``WANDB_PROJECT``, else the project is "fedkin". Its own files are in the
    folder ``wandb`` in ``tracking.folder``, by default where it puts them. It is otherwise configured by its own means.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._run: Any = None

    def begin(self, known: Mapping[str, str] | None) -> dict[str, str]:
        """Start the run, or resume it."""
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
        """Keep the files as one artifact and close the run."""
        import wandb

        if files:
            artifact = wandb.Artifact(f"run-{self._run.id}", type="fedkin-run")
            for file in files:
                artifact.add_file(str(file))
            self._run.log_artifact(artifact)
        self._run.finish(exit_code=0 if status == "finished" else 1)
