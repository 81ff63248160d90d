"""MLflow tracker."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkin.core.progress import Status
from fedkin.experiment.tracking.tracker import ALWAYS, Subject

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
