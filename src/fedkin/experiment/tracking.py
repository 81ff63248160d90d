"""Trackers of a run: MLflow, TensorBoard and Weights & Biases.

They get a step after its checkpoint is on disk, so no tool ever has a step that the run may have to repeat.
``tracking.json`` in the run's folder holds the id by which each tool knows the run, and the last step it got. A run
that resumes is therefore resumed there too, and a tool first gets the steps it missed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

from fedkin.core import FedkinError
from fedkin.core.errors import in_short
from fedkin.core.files import folder_lock, read_json, write_atomically
from fedkin.core.progress import Callback, RecordLine, Status, Timing, run_with_callbacks
from fedkin.experiment.config import Config, flat
from fedkin.experiment.run_folder import CONFIG, RECORDS, RESULT, no_run, read_lines, read_timing, run_config

NOTES = "tracking.json"


class Tracker(Protocol):
    """Interface of a tracking tool; any exception means that the tool could not be reached.

    It is built with the experiment, the run's folder, and the id that an earlier process got as `run`, if any, and has
    the id by which a later process resumes the tracked run, which is no secret.
    """

    title: str
    run: str

    def __init__(self, config: Config, folder: Path, run: str | None) -> None: ...

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Send the numbers of a step, the first of which is 1; on return they have left this process."""
        ...

    def close(self, status: Status) -> None:
        """Close the tracked run."""
        ...


class MLflow:
    """Tracker that logs metrics, parameters and tags to an MLflow server or database, ``tracking.uri``."""

    title = "MLflow"

    def __init__(self, config: Config, folder: Path, run: str | None) -> None:
        # MLflow reads these when it is imported: nothing is reported to its makers, and a server that is gone delays a
        # run by seconds, not by minutes.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        self.client = MlflowClient(tracking_uri=config.tracking.uri)
        if run is not None:
            self.run = run
            self.client.update_run(run, status="RUNNING")
            return
        project = config.tracking.project or "fedkin"
        experiment = self.client.get_experiment_by_name(project)
        number = experiment.experiment_id if experiment else self.client.create_experiment(project)
        self.run = self.client.create_run(number, run_name=_name(config, folder)).info.run_id
        parameters = [Param(_key(path), json.dumps(value)) for path, value in flat(config.tables)]
        for first in range(0, len(parameters), 100):  # as many as MLflow takes in one call
            self.client.log_batch(self.run, params=parameters[first : first + 100])

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(_key(name), value, now, step) for name, value in numbers.items()]
        self.client.log_batch(self.run, metrics=metrics)

    def close(self, status: Status) -> None:
        names = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
        self.client.set_terminated(self.run, status=names[status])


def _key(name: str) -> str:
    """Replace characters in a name that MLflow does not allow."""
    return re.sub(r"[^\w\-. :/]", "_", name)


class TensorBoard:
    """Tracker that writes scalars and the experiment to an event file in the run's folder, from the first step on.

    A process that resumes writes a file of its own, which makes TensorBoard ignore this step and later ones of older
    files.
    """

    title = "TensorBoard"

    def __init__(self, config: Config, folder: Path, run: str | None) -> None:
        self.config, self.folder, self.resumes = config, folder / "tensorboard", run is not None
        self.run = "tensorboard"
        self.writer: Any = None

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        if self.writer is None:
            self.writer = SummaryWriter(str(self.folder), purge_step=step if self.resumes else None)
            self.writer.add_text("experiment", f"```\n{self.config.to_toml()}```", step)
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def close(self, status: Status) -> None:
        if self.writer is not None:
            self.writer.close()


class WandB:
    """Tracker that logs numbers and the experiment to Weights & Biases, whose own variables configure all else."""

    title = "Weights & Biases"

    def __init__(self, config: Config, folder: Path, run: str | None) -> None:
        import wandb

        self.run = run or secrets.token_hex(4)
        self.live = wandb.init(
            project=config.tracking.project or "fedkin",
            name=_name(config, folder),
            id=self.run,
            resume="allow",
            config=dict(flat(config.tables)),
            settings=wandb.Settings(console="off"),
        )

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        self.live.log(dict(numbers), step=step)  # which drops steps that it has already

    def close(self, status: Status) -> None:
        self.live.finish(exit_code=0 if status == "finished" else 1)


TOOLS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}
"""Trackers by name, which is also that of the package that each needs."""


def _name(config: Config, folder: Path) -> str:
    return config.tracking.name or folder.resolve().name


@dataclass
class Note:
    """Entry of a tool in ``tracking.json``: the run's id there, and the last step that was sent."""

    run: str
    step: int


class Trackers(Callback):
    """Callback that sends a run to the tools of ``tracking.to``; once begun, a failing tool does not stop the run.

    `lost` is called once per tool that could not be reached, with a sentence without a full stop.
    """

    def __init__(self, config: Config, folder: Path, lost: Callable[[str], None]) -> None:
        self.config, self.folder, self.lost = config, folder, lost
        self.live: dict[str, Tracker] = {}
        self.notes: dict[str, Note] = {}

    def begin(self) -> None:
        """Open all tools, and send the steps they missed.

        Raises FedkinError if a tool cannot be opened for a new tracked run, or ``tracking.json`` is damaged.
        """
        if not self.config.tracking.to:
            return
        path = self.folder / NOTES
        self.notes = read_json(path, dict[str, Note], "; remove it to track the run again") if path.exists() else {}
        for name in dict.fromkeys(self.config.tracking.to):
            note = self.notes.get(name)
            try:
                self.live[name] = TOOLS[name](self.config, self.folder, None if note is None else note.run)
            except Exception as error:
                if note is None:
                    raise FedkinError(f"{TOOLS[name].title} cannot track this run ({in_short(error)}).") from error
                self._lose(name, error)
            else:
                self.notes.setdefault(name, Note(self.live[name].run, 0))
        self._keep()
        timings = {timing["step"]: timing for timing in read_timing(self.folder)}
        for line in read_lines(self.folder / RECORDS):
            self.step(line, timings.get(line["step"], {}))

    def step(self, line: RecordLine, timing: Timing) -> None:
        """Send a step to every tool that does not have it yet."""
        for name, tracker in list(self.live.items()):
            if line["step"] <= self.notes[name].step:
                continue
            try:
                tracker.log(line["step"], numbers(line, timing))
            except Exception as error:
                self._lose(name, error)
            else:
                self.notes[name].step = line["step"]
                self._keep()

    def end(self, status: Status) -> None:
        if status == "finished" and not (self.folder / RESULT).exists():
            status = "interrupted"  # tracked afterwards, before the run has finished
        for name, tracker in list(self.live.items()):
            try:
                tracker.close(status)
            except Exception as error:
                self._lose(name, error)
        self.live = {}

    def _lose(self, name: str, error: Exception) -> None:
        """Warn that a tool failed, and continue without it."""
        self.live.pop(name, None)
        step = self.notes[name].step
        self.lost(f"{TOOLS[name].title} could not be reached for {self.folder} after step {step} ({in_short(error)})")

    def _keep(self) -> None:
        notes = {name: asdict(note) for name, note in self.notes.items()}
        write_atomically(self.folder / NOTES, json.dumps(notes, indent=2) + "\n")


def numbers(line: Mapping[str, Any], timing: Mapping[str, Any]) -> dict[str, float]:
    """Return the scalar values of a step by name, from its lines of ``records.jsonl`` and ``timing.jsonl``.

    They are ``metrics/...`` and ``values/...`` as the record has them, without what is no finite number;
    ``clients/answered``, ``clients/missing``; bytes since the start of the run, ``traffic/sent_bytes`` and
    ``traffic/received_bytes``; and ``time/seconds``, ``time/client_seconds`` where they are known: `timing` may be
    empty.
    """
    values = {f"{part}/{name}": value for part in ("metrics", "values") for name, value in line[part].items()}
    values |= {"clients/answered": len(line["answered"]), "clients/missing": len(line["missing"])}
    values |= {"traffic/sent_bytes": line["sent"], "traffic/received_bytes": line["received"]}
    values |= {f"time/{name}": timing[name] for name in ("seconds", "client_seconds") if name in timing}
    return {name: float(value) for name, value in values.items() if type(value) in (int, float)}


def track(folder: Path, to: Sequence[str] = (), settings: Sequence[str] = ()) -> int:
    """Send the steps of a run to trackers that do not have them yet; return how many steps it has.

    `to` are names of trackers, by default those of the run's configuration, which `settings` override, each a
    ``"tracking.key=value"``. Raises FedkinError if there is no run or no step, a name or setting is not allowed,
    another process is at work in the folder, or a tracker is not installed or cannot be reached.
    """
    if not (folder / CONFIG).is_file():
        raise no_run(folder)
    for setting in settings:
        if not setting.startswith("tracking."):
            raise FedkinError(f"--set takes tracking.key=value here, not '{setting}'; the run has been made.")
    config = run_config(folder, [*([f"tracking.to={json.dumps(list(to))}"] if to else []), *settings])
    if not config.tracking.to:
        raise FedkinError(f"{folder} has no tracker configured; pass --to, as in --to mlflow.")
    config.tracking.check_installed()

    def refuse(sentence: str) -> NoReturn:
        raise FedkinError(f"{sentence}.")

    with folder_lock(folder):
        steps = len(read_lines(folder / RECORDS))
        if not steps:
            raise FedkinError(f"{folder} has no step to track yet; resume it with `fedkin resume {folder}`.")
        with run_with_callbacks(Trackers(config, folder, refuse)):
            return steps
