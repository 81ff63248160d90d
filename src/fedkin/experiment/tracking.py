"""All trackers of one run.

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
                tracker = TOOLS[tool](subject)
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


# Interface of trackers, and what they get of a run: its description, and its records as flat names and numbers.


Scalar = bool | int | float | str

ALWAYS = "traffic/received_bytes"
"""A number that every step has."""


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


def numbers(line: Mapping[str, Any], timing: Mapping[str, Any]) -> dict[str, float]:
    """Return the scalar values of a step by name, from its lines of ``records.jsonl`` and ``timing.jsonl``.

    They are ``metrics/...`` and ``values/...`` as the record has them, without what is no finite number;
    ``clients/answered``, ``clients/missing``; bytes since the start of the run, ``traffic/sent_bytes`` and
    ``traffic/received_bytes``; and ``time/seconds``, ``time/client_seconds`` where they are known: `timing` may be
    empty.
    """
    found = {f"{part}/{name}": value for part in ("metrics", "values") for name, value in line[part].items()}
    found["clients/answered"], found["clients/missing"] = len(line["answered"]), len(line["missing"])
    found["traffic/sent_bytes"], found[ALWAYS] = line["sent"], line["received"]
    found |= {f"time/{name}": timing[name] for name in ("seconds", "client_seconds") if name in timing}
    plain = {name: value for name, value in found.items() if isinstance(value, int | float)}
    return {name: float(value) for name, value in plain.items() if not isinstance(value, bool)}


def parameters(config: Config) -> dict[str, Scalar]:
    """Return the configuration with flat keys such as ``"method.local_epochs"``; lists as JSON, no ``[tracking]``."""
    tables = {name: table for name, table in config.tables.items() if name != "tracking"}
    return {path: json.dumps(value) if isinstance(value, list) else value for path, value in flat(tables)}


def tags(config: Config) -> dict[str, str]:
    """Return the tags that tell runs apart: method, data, scenario, engine, seed and version."""
    return {
        "method": config.method_name,
        "data": config.data.source,
        "scenario": str(config.simulation.scenario),
        "engine": config.simulation.engine,
        "seed": str(config.seed),
        "fedkin": __version__,
    }


# Send a finished or stopped run's steps to trackers afterwards.


def track(folder: Path, to: Sequence[str] = (), settings: Sequence[str] = (), anew: bool = False) -> int:
    """Send the steps of a run to trackers that do not have them yet, and the result; return how many steps it has.

    `to` are names of trackers, by default those of the run's configuration, which `settings` override, each a
    ``"tracking.key=value"``. With `anew` a new tracked run is started where a tracker knows the run already. Raises
    FedkinError if there is no run or no step, a name or setting is not allowed, another process is at work in the
    folder, or a tracker is not installed or cannot be reached.
    """
    if not (folder / CONFIG).is_file():
        raise no_run(folder)
    for setting in settings:
        if not setting.startswith("tracking."):
            raise FedkinError(f"--set takes tracking.key=value here, not '{setting}'; the run has been made.")
    names = [f"tracking.to={json.dumps(list(to))}"] if to else []
    config = run_config(folder, [*names, *settings])
    if not config.tracking.to:
        raise FedkinError(f"{folder} has no tracker configured; pass --to, as in --to mlflow.")
    config.tracking.check_installed()
    with folder_lock(folder):
        steps = len(read_lines(folder / RECORDS))
        if not steps:
            raise FedkinError(f"{folder} has no step to track yet; resume it with `fedkin resume {folder}`.")
        with run_with_callbacks(Trackers(config, folder, _refuse, anew)):
            return steps


def _refuse(sentence: str) -> NoReturn:
    raise FedkinError(f"{sentence}.")


# MLflow tracker.


_STATUS = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
_FILE = "sqlite:///"
_AT_ONCE = 100
"""Parameters in one call."""
_DEFAULTS = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}
"""No telemetry is sent, and a server that is gone delays a run by seconds, not by minutes."""


class MLflow:
    """Tracker that logs metrics, parameters, tags and artifacts to an MLflow server or database.

    ``tracking.uri`` and ``tracking.project`` say where; by default the environment, as ``MLFLOW_TRACKING_URI`` and
    ``MLFLOW_EXPERIMENT_NAME``, or else the experiment "fedkin" in MLflow's own default place, ``mlflow.db``.
    """

    title = "MLflow"

    def __init__(self, subject: Subject) -> None:
        for name, value in _DEFAULTS.items():
            os.environ.setdefault(name, value)
        self.subject = subject
        self._client: Any = None
        self._run = ""
        self._has: set[int] = set()

    def begin(self, known: Mapping[str, str] | None) -> dict[str, str]:
        """Create the tracked run with all parameters, or resume one that stopped."""
        import mlflow
        from mlflow.tracking import MlflowClient

        uri = (known or {}).get("uri") or self.subject.settings.uri or mlflow.get_tracking_uri()
        if uri.startswith(_FILE):  # a process that resumes may be started elsewhere
            uri = f"{_FILE}{Path(uri.removeprefix(_FILE)).resolve()}"
        self._client = MlflowClient(tracking_uri=uri)
        if known is None:
            self._create()
        else:
            self._run = known["run"]
            self._client.update_run(self._run, status="RUNNING")
            self._has = {metric.step for metric in self._client.get_metric_history(self._run, ALWAYS)}
        return {"run": self._run} | ({"uri": uri} if uri.startswith(_FILE) else {})

    def step(self, step: int, numbers: Mapping[str, float]) -> None:
        """Send a step's numbers, unless an earlier process sent them just before it stopped."""
        from mlflow.entities import Metric

        if step in self._has:
            return
        now = int(1000 * time.time())
        metrics = [Metric(_key(name), value, now, step) for name, value in numbers.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def end(self, status: Status, files: Sequence[Path]) -> None:
        """Upload the files and close the tracked run."""
        for file in files:
            self._client.log_artifact(self._run, str(file))
        self._client.set_terminated(self._run, status=_STATUS[status])

    def _create(self) -> None:
        from mlflow.entities import Param

        project = self.subject.settings.project or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "fedkin"
        found = self._client.get_experiment_by_name(project)
        experiment = found.experiment_id if found else self._client.create_experiment(project)
        run = self._client.create_run(experiment, run_name=self.subject.name, tags=self.subject.tags)
        self._run = run.info.run_id
        params = [Param(_key(name), str(value)) for name, value in self.subject.parameters.items()]
        for start in range(0, len(params), _AT_ONCE):
            self._client.log_batch(self._run, params=params[start : start + _AT_ONCE])


def _key(name: str) -> str:
    """Replace characters in a name that MLflow does not allow."""
    return re.sub(r"[^\w\-. :/]", "_", name)


# TensorBoard tracker.


FOLDER = "tensorboard"


class TensorBoard:
    """Tracker that writes scalars, hyper-parameters and tags to a TensorBoard event file.

    The file is in the run's folder or below ``tracking.folder``. Nothing is written before the first step. A process
    that resumes writes a file of its own, which makes TensorBoard ignore this step and later ones of older files.
    """

    title = "TensorBoard"

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


# Weights & Biases tracker.


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


TOOLS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}
"""Trackers by name, which is also that of the package that each needs."""
