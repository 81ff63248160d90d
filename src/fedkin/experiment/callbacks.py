"""Callbacks that end a run early, and those that send it to trackers: MLflow and TensorBoard.

Trackers get a step after its checkpoint is on disk, so no tool ever has a step that the run may have to repeat. A run
that resumes is resumed there too, and a tool first gets the steps it missed.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from fedkin.core import FedkinError
from fedkin.core.errors import in_short, listing
from fedkin.core.files import environment, read_json, write_atomically
from fedkin.core.runner import Callback, RecordLine, Status, Timing
from fedkin.experiment.config import Config, flat
from fedkin.experiment.run_folder import RECORDS, read_lines, read_timing

NOTES, TENSORBOARD = "tracking.json", "tensorboard"
"""File and folder of trackers in a run's folder."""


class EarlyStopping(Callback):
    """Callback that ends a run or fit after `patience` rounds without improvement of a metric.

    The models of the last round are kept, not those of the best one.

    Parameters
    ----------
    monitor : str
        A metric or a value of the record. By default the mean over clients of the accuracy on their own validation
        samples, which needs ``fit(..., validation=...)``; ``"personal_accuracy"`` is that on ``eval``, and ``"loss"``
        the training loss.
    patience : int
        Rounds without a better value, at least 1.
    min_delta : float
        How much better a value has to be, 0 or more.
    mode : {"auto", "max", "min"}
        Whether more is better; "auto" is "min" if the name contains ``loss``.

    Attributes
    ----------
    best : float or None
        The best value so far.
    best_step : int
        The round that had it; 0 before the first.

    Raises
    ------
    FedkinError
        If a parameter is out of its range; or, during the run, if the metric is not measured.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import fedkin
    >>> x, y = load_digits(return_X_y=True)
    >>> clients = [(x[i::4], y[i::4]) for i in range(4)]
    >>> stop = fedkin.EarlyStopping(patience=1)
    >>> model = fedkin.FedAvg(rounds=100, random_state=0).fit(clients, validation=0.2, callbacks=[stop])
    >>> model.n_iter_ < 100
    True
    """

    def __init__(
        self,
        monitor: str = "validation_personal_accuracy",
        patience: int = 5,
        min_delta: float = 0.0,
        mode: Literal["auto", "max", "min"] = "auto",
    ) -> None:
        if not isinstance(patience, int) or patience < 1:
            raise FedkinError(f"patience is {patience!r}; it should be a whole number of rounds, 1 or more.")
        if not min_delta >= 0:
            raise FedkinError(f"min_delta is {min_delta!r}; it should be 0 or more.")
        if mode not in ("auto", "max", "min"):
            raise FedkinError(f"mode is {mode!r}; it should be 'auto', 'max' or 'min'.")
        self.monitor, self.patience, self.min_delta = monitor, patience, min_delta
        self.sign = -1.0 if mode == "min" or (mode == "auto" and "loss" in monitor) else 1.0
        self.begin()

    def begin(self) -> None:
        self.best: float | None = None
        self.best_step = 0

    def stops(self, line: RecordLine) -> bool:
        measured = {**line["values"], **line["metrics"]}
        if self.monitor not in measured:
            advice = " Give fit validation, samples by client." if "validation" in self.monitor else ""
            names = sorted(name for name, value in measured.items() if type(value) in (int, float))
            raise FedkinError(
                f"EarlyStopping monitors '{self.monitor}', which is not measured in step {line['step']}; there are "
                f"{listing(names)}.{advice}"
            )
        value = measured[self.monitor]
        is_number = value is not None and math.isfinite(value)  # a loss may diverge, which is no improvement
        if is_number and (self.best is None or self.sign * (value - self.best) > self.min_delta):
            self.best, self.best_step = float(value), int(line["step"])
        return bool(line["step"] - self.best_step >= self.patience)


class TargetWatch(Callback):
    """Callback that ends a run when its target metric is reached, if ``evaluation.stop`` says so."""

    def __init__(self, config: Config) -> None:
        self.evaluation = config.evaluation

    def stops(self, line: RecordLine) -> bool:
        metric, reach = self.evaluation.target, self.evaluation.reach
        if not self.evaluation.stop or metric is None or reach is None:
            return False
        value = {**line["values"], **line["metrics"]}.get(metric)
        return isinstance(value, int | float) and value >= reach


# Trackers.


# Nothing is reported to MLflow's makers, and a server that is gone delays a run by seconds, not by minutes.
_mlflow_environment = environment(MLFLOW_DISABLE_TELEMETRY="true", MLFLOW_HTTP_REQUEST_MAX_RETRIES="2")


class MLflow:
    """Tracker that logs metrics, parameters and tags to an MLflow server or database.

    ``tracking.json`` in the run's folder has the id of the tracked run, which a run that resumes continues.
    """

    @_mlflow_environment
    def __init__(self, config: Config, folder: Path) -> None:
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        self.client, path = MlflowClient(), folder / NOTES
        if path.exists():
            self.run = read_json(path, dict[str, str])["mlflow"]
            self.client.update_run(self.run, status="RUNNING")
            self.last = max((each.step for each in self.client.get_metric_history(self.run, _COUNTED)), default=0)
            return
        project = config.tracking.project
        experiment = self.client.get_experiment_by_name(project)
        number = experiment.experiment_id if experiment else self.client.create_experiment(project)
        self.run, self.last = self.client.create_run(number, run_name=folder.resolve().name).info.run_id, 0
        parameters = [Param(_key(key), json.dumps(value)) for key, value in flat(config.tables)]
        self.client.log_batch(self.run, params=parameters)
        write_atomically(path, json.dumps({"mlflow": self.run}) + "\n")

    @_mlflow_environment
    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        if step > self.last:
            clock = int(1000 * time.time())  # milliseconds
            metrics = [Metric(_key(name), value, clock, step) for name, value in numbers.items()]
            self.client.log_batch(self.run, metrics=metrics)

    @_mlflow_environment
    def close(self, status: Status) -> None:
        names = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
        self.client.set_terminated(self.run, status=names[status])


def _key(name: str) -> str:
    """Replace characters in a name that MLflow does not allow."""
    return re.sub(r"[^\w\-. :/]", "_", name)


class TensorBoard:
    """Tracker that writes scalars and the experiment to an event file in the run's folder, and anew when it resumes."""

    def __init__(self, config: Config, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        shutil.rmtree(folder / TENSORBOARD, ignore_errors=True)
        self.writer: Any = SummaryWriter(str(folder / TENSORBOARD))
        self.writer.add_text("experiment", f"```\n{config.to_toml()}```")

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def close(self, status: Status) -> None:
        self.writer.close()


Tracker = MLflow | TensorBoard
TOOLS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow}
"""Trackers by name, which is also that of the package that each needs."""
_COUNTED = "clients/answered"
"""A number that every step has."""


class Trackers(Callback):
    """Callback that sends a run to the tools of ``tracking.to``; once begun, a failing tool does not stop the run.

    `tell` is called with a sentence for each tool that could not be reached.
    """

    def __init__(self, config: Config, folder: Path, tell: Callable[[str], None]) -> None:
        self.config, self.folder, self.tell = config, folder, tell
        self.live: dict[str, Tracker] = {}

    def begin(self) -> None:
        """Open all tools, and send the steps they missed; raise FedkinError if one cannot be opened for a new run."""
        lines = read_lines(self.folder / RECORDS)
        for tool in dict.fromkeys(self.config.tracking.to):
            try:
                self.live[tool] = TOOLS[tool](self.config, self.folder)
            except Exception as error:
                if not lines:
                    raise FedkinError(f"{TOOLS[tool].__name__} cannot track this run ({in_short(error)}).") from error
                self._lose(tool, error)
        timings = {timing["step"]: timing for timing in read_timing(self.folder)} if self.live else {}
        for line in lines if self.live else []:
            self.step(line, timings.get(line["step"], {}))

    def step(self, line: RecordLine, timing: Timing) -> None:
        self._each(lambda tracker: tracker.log(line["step"], numbers(line, timing)))

    def end(self, status: Status) -> None:
        self._each(lambda tracker: tracker.close(status))
        self.live = {}

    def _each(self, call: Callable[[Tracker], None]) -> None:
        for tool, tracker in list(self.live.items()):
            try:
                call(tracker)
            except Exception as error:
                self._lose(tool, error)

    def _lose(self, tool: str, error: Exception) -> None:
        """Warn that a tool failed, and continue without it."""
        self.live.pop(tool, None)
        self.tell(
            f"{TOOLS[tool].__name__} could not be reached ({in_short(error)}); the run continues, and `fedkin resume "
            f"{self.folder}` sends the rest."
        )


def numbers(line: Mapping[str, Any], timing: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a step by name, from its lines of ``records.jsonl`` and ``timing.jsonl``.

    They are ``metrics/...`` and ``values/...`` as the record has them; ``clients/answered``, ``clients/missing``; bytes
    since the start of the run, ``traffic/sent_bytes`` and ``traffic/received_bytes``; and ``time/seconds``,
    ``time/client_seconds`` where they are known: `timing` may be empty.
    """
    values = {f"{part}/{name}": value for part in ("metrics", "values") for name, value in line[part].items()}
    values |= {_COUNTED: len(line["answered"]), "clients/missing": len(line["missing"])}
    values |= {"traffic/sent_bytes": line["sent"], "traffic/received_bytes": line["received"]}
    values |= {f"time/{name}": timing[name] for name in ("seconds", "client_seconds") if name in timing}
    return {name: float(value) for name, value in values.items() if type(value) in (int, float)}
