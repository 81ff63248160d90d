"""Runs as MLflow's own database gives them back."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from fedkin.experiment.run import resume
from tracked import interrupt, run

pytestmark = pytest.mark.usefixtures("toy")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an empty database, which takes MLflow seconds to make; files go below it, too."""
    from mlflow.tracking import MlflowClient

    folder = tmp_path_factory.mktemp("mlflow")
    with contextlib.chdir(folder):
        MlflowClient(f"sqlite:///{folder}/mlflow.db").search_experiments()
    return folder


@pytest.fixture
def client(made: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of that database, which is in the folder that the process works in."""
    from mlflow.tracking import MlflowClient

    monkeypatch.chdir(made)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return MlflowClient(f"sqlite:///{made}/mlflow.db")


def to(project: str) -> list[str]:
    return ["tracking.to=['mlflow']", "tracking.uri='sqlite:///mlflow.db'", f"tracking.project={project}"]


def only(client: Any, project: str) -> Any:
    """The only run of a project."""
    (found,) = client.search_runs([client.get_experiment_by_name(project).experiment_id])
    return found


def history(client: Any, found: Any, name: str) -> list[tuple[int, float]]:
    return [(metric.step, metric.value) for metric in client.get_metric_history(found.info.run_id, name)]


def test_metrics_parameters_tags_and_artifacts_are_read_back(client: Any, made: Path, tmp_path: Path) -> None:
    outcome = run(tmp_path / "first", *to("whole"), "method.rate=0.25")
    found = only(client, "whole")
    assert (found.info.run_name, found.info.status) == ("first", "FINISHED")
    first, sent = (history(client, found, name) for name in ("values/first", "traffic/sent_bytes"))
    assert first == [(line["step"], line["values"]["first"]) for line in outcome.records]
    assert sent == [(line["step"], line["sent"]) for line in outcome.records]
    assert found.data.params["method.rate"] == "0.25"
    assert found.data.params["simulation.failures"] == "[]"
    assert found.data.tags["method"] == "toy"
    assert found.info.artifact_uri.startswith(str(made))
    for name in ("result.json", "report.html"):
        kept = Path(client.download_artifacts(found.info.run_id, name, str(tmp_path)))
        assert kept.read_bytes() == (tmp_path / "first" / name).read_bytes()


@pytest.mark.parametrize("noted", [2, 1])
def test_a_resumed_run_is_the_same_run_with_every_step_once(
    noted: int, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if it was killed before it could note that a step had arrived, and goes on from another folder."""
    project = f"resumed-{noted}"
    interrupt(tmp_path / "run", 2, monkeypatch, *to(project))
    assert only(client, project).info.status == "KILLED"
    notes = tmp_path / "run" / "tracking.json"
    known = json.loads(notes.read_text())
    known["mlflow"]["step"] = noted
    notes.write_text(json.dumps(known))
    monkeypatch.chdir(tmp_path)
    outcome = resume(tmp_path / "run")
    found = only(client, project)
    assert found.info.status == "FINISHED"
    assert history(client, found, "traffic/sent_bytes") == [(line["step"], line["sent"]) for line in outcome.records]
    assert not (tmp_path / "mlflow.db").exists()
