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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

from fedkin import __version__
from fedkin.core import FedkinError
from fedkin.core.files import folder_lock, read_json, write_atomically
from fedkin.core.progress import Callback, RecordLine, Status, Timing, run_with_callbacks
from fedkin.experiment.config import Config, flat
from fedkin.experiment.run_folder import CONFIG, RECORDS, TRACKED, no_run, read_lines, read_timing, run_config
from fedkin.experiment.sections import TrackingSection

NOTES = "tracking.json"


@dataclass(frozen=True)
class Note:
    """Entry of a tool in ``tracking.json``: the run's id there, and the last step that was sent."""

    known: dict[str, str]
    step: int


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
    parameters: dict[str, bool | int | float | str]
    tags: dict[str, str]

    @classmethod
    def of(cls, config: Config, folder: Path) -> Subject:
        """Return the description of an experiment's run in a folder."""
        tables = {name: table for name, table in config.tables.items() if name != "tracking"}
        tags = {
            "method": config.method_name, "data": config.data.source, "scenario": config.simulation.scenario,
            "engine": config.simulation.engine, "seed": str(config.seed), "fedkin": __version__,
        }  # fmt: skip
        parameters = {path: json.dumps(value) if isinstance(value, list) else value for path, value in flat(tables)}
        return cls(config.tracking.name or folder.resolve().name, folder, config.tracking, parameters, tags)


class Tracker(Protocol):
    """Interface of a tracking tool; any exception that a method raises means that the tool could not be reached."""

    title: str

    def __init__(self, subject: Subject) -> None: ...

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


class Trackers(Callback):
    """Callback that sends a run to the tools of ``tracking.to``; once begun, a failing tool does not stop the run.

    `lost` is called once per tool that could not be reached, with a sentence without a full stop.
    """

    def __init__(self, config: Config, folder: Path, lost: Callable[[str], None]) -> None:
        self.config, self.folder, self.lost = config, folder, lost
        self._live: dict[str, Tracker] = {}
        self._notes: dict[str, Note] = {}

    def begin(self) -> None:
        """Open all tools, and send the steps they missed.

        Raises FedkinError if a tool cannot be opened for a new tracked run, or ``tracking.json`` is damaged.
        """
        if not self.config.tracking.to:
            return
        path = self.folder / NOTES
        self._notes = read_json(path, dict[str, Note], "; remove it to track the run again") if path.exists() else {}
        subject = Subject.of(self.config, self.folder)
        for name in dict.fromkeys(self.config.tracking.to):
            note = self._notes.get(name)
            try:
                tracker = TOOLS[name](subject)
                known = tracker.begin(None if note is None else note.known)
                self._keep(name, Note(known, 0 if note is None else note.step))
                self._live[name] = tracker
            except Exception as error:
                if note is None:
                    raise FedkinError(
                        f"{TOOLS[name].title} cannot track this run: {_reason(error)}; fix [tracking] or remove the "
                        "tool."
                    ) from error
                self._lose(name, error)
        timings = {timing["step"]: timing for timing in read_timing(self.folder)}
        for line in read_lines(self.folder / RECORDS):
            self.step(line, timings.get(line["step"], {}))

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
                self._keep(name, replace(self._notes[name], step=line["step"]))

    def end(self, status: Status) -> None:
        """Close all tools; upload the result if there is one."""
        if status == "finished" and not (self.folder / TRACKED[0]).exists():
            status = "interrupted"  # tracked afterwards, before the run has finished
        uploads = self.config.tracking.artifacts and status == "finished"
        files = [self.folder / name for name in TRACKED if uploads and (self.folder / name).exists()]
        for name, tracker in list(self._live.items()):
            try:
                tracker.end(status, files)
            except Exception as error:
                self._lose(name, error)
        self._live = {}

    def _lose(self, name: str, error: Exception) -> None:
        """Warn that a tool failed, and continue without it."""
        self._live.pop(name, None)
        step = self._notes[name].step
        self.lost(f"{TOOLS[name].title} could not be reached for {self.folder} after step {step} ({_reason(error)})")

    def _keep(self, name: str, note: Note) -> None:
        self._notes[name] = note
        notes = {name: asdict(each) for name, each in self._notes.items()}
        write_atomically(self.folder / NOTES, json.dumps(notes, indent=2) + "\n")


def _reason(error: Exception) -> str:
    """Return the first line of a tool's error message, at most 300 characters."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return text.rstrip(".") if len(text) <= 300 else f"{text[:300]}…"


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
    """Send the steps of a run to trackers that do not have them yet, and the result; return how many steps it has.

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
    with folder_lock(folder):
        steps = len(read_lines(folder / RECORDS))
        if not steps:
            raise FedkinError(f"{folder} has no step to track yet; resume it with `fedkin resume {folder}`.")
        with run_with_callbacks(Trackers(config, folder, _refuse)):
            return steps


def _refuse(sentence: str) -> NoReturn:
    raise FedkinError(f"{sentence}.")


class MLflow:
    """Tracker that logs metrics, parameters, tags and artifacts to an MLflow server or database.

    ``tracking.uri`` and ``tracking.project`` say where; by default the environment, as ``MLFLOW_TRACKING_URI`` and
    ``MLFLOW_EXPERIMENT_NAME``, or else the experiment "fedkin" in MLflow's own default place, ``mlflow.db``.
    """

    title = "MLflow"

    def __init__(self, subject: Subject) -> None:
        # No telemetry is sent, and a server that is gone delays a run by seconds, not by minutes.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        self.subject = subject
        self._client: Any = None
        self._run = ""
        self._sent: set[int] = set()

    def begin(self, known: Mapping[str, str] | None) -> dict[str, str]:
        import mlflow
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        uri = (known or {}).get("uri") or self.subject.settings.uri or mlflow.get_tracking_uri()
        is_file = uri.startswith("sqlite:///")
        if is_file:  # a process that resumes may be started elsewhere
            uri = f"sqlite:///{Path(uri.removeprefix('sqlite:///')).resolve()}"
        self._client = MlflowClient(tracking_uri=uri)
        if known is not None:
            self._run = known["run"]
            self._client.update_run(self._run, status="RUNNING")
            history = self._client.get_metric_history(self._run, "traffic/received_bytes")  # which every step has
            self._sent = {metric.step for metric in history}
            return dict(known)
        project = self.subject.settings.project or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "fedkin"
        experiment = self._client.get_experiment_by_name(project)
        number = experiment.experiment_id if experiment else self._client.create_experiment(project)
        run = self._client.create_run(number, run_name=self.subject.name, tags=self.subject.tags)
        self._run = run.info.run_id
        parameters = [Param(_key(name), str(value)) for name, value in self.subject.parameters.items()]
        for start in range(0, len(parameters), 100):  # as many as MLflow takes in one call
            self._client.log_batch(self._run, params=parameters[start : start + 100])
        return {"run": self._run} | ({"uri": uri} if is_file else {})

    def step(self, step: int, numbers: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        if step not in self._sent:  # an earlier process may have sent it just before it stopped
            now = int(1000 * time.time())
            metrics = [Metric(_key(name), value, now, step) for name, value in numbers.items()]
            self._client.log_batch(self._run, metrics=metrics)

    def end(self, status: Status, files: Sequence[Path]) -> None:
        for file in files:
            self._client.log_artifact(self._run, str(file))
        names = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
        self._client.set_terminated(self._run, status=names[status])


def _key(name: str) -> str:
    """Replace characters in a name that MLflow does not allow."""
    return re.sub(r"[^\w\-. :/]", "_", name)


class TensorBoard:
    """Tracker that writes scalars, hyper-parameters and tags to a TensorBoard event file.

    The file is in the run's folder or below ``tracking.folder``. Nothing is written before the first step. A process
    that resumes writes a file of its own, which makes TensorBoard ignore this step and later ones of older files.
    """

    title = "TensorBoard"

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.folder = subject.folder / "tensorboard"
        self._resumes = False
        self._writer: Any = None

    def begin(self, known: Mapping[str, str] | None) -> dict[str, str]:
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
        from torch.utils.tensorboard import SummaryWriter

        if self._writer is None:
            self._writer = SummaryWriter(str(self.folder), purge_step=step if self._resumes else None)
            for title, values in (("run", self.subject.tags), ("parameters", self.subject.parameters)):
                rows = "".join(f"| {name} | {value} |\n" for name, value in values.items())
                self._writer.add_text(title, f"| | |\n|---|---|\n{rows}", step)
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def end(self, status: Status, files: Sequence[Path]) -> None:
        if self._writer is not None:
            self._writer.close()
        elif not any(self.folder.iterdir()):
            self.folder.rmdir()


class WandB:
    """Tracker that logs numbers, configuration, tags and an artifact to Weights & Biases (W&B).

    The project is ``tracking.project``, by default ``WANDB_PROJECT`` or "fedkin". W&B's own files are in the folder
    ``wandb`` in ``tracking.folder``, by default where it puts them. All else is configured by W&B's own variables, such
    as ``WANDB_MODE=offline`` for files that are uploaded later.
    """

    title = "Weights & Biases"

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._run: Any = None

    def begin(self, known: Mapping[str, str] | None) -> dict[str, str]:
        import wandb

        folder = self.subject.settings.folder
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        run = known["run"] if known else secrets.token_hex(4)
        self._run = wandb.init(
            project=self.subject.settings.project or os.environ.get("WANDB_PROJECT") or "fedkin",
            name=self.subject.name,
            id=run,
            resume="allow",
            config=self.subject.parameters,
            tags=[f"{name}: {value}"[:64] for name, value in self.subject.tags.items()],  # W&B takes no longer ones
            dir=folder,
            settings=wandb.Settings(console="off"),
        )
        return {"run": run}

    def step(self, step: int, numbers: Mapping[str, float]) -> None:
        self._run.log(dict(numbers), step=step)  # which drops steps that it has already

    def end(self, status: Status, files: Sequence[Path]) -> None:
        import wandb

        if files:
            artifact = wandb.Artifact(f"run-{self._run.id}", type="fedkin-run")
            for file in files:
                artifact.add_file(str(file))
            self._run.log_artifact(artifact)
        self._run.finish(exit_code=0 if status == "finished" else 1)


TOOLS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}
"""Trackers by name, which is also that of the package that each needs."""
