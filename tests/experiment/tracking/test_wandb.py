"""What Weights & Biases gets, by a stand-in that keeps it: the package is not among those for development."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tracked import run

pytestmark = pytest.mark.usefixtures("toy")
TO = "tracking.to=['wandb']"


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """All that was said, in order."""
    calls: list[tuple[str, Any]] = []

    class Artifact(list):
        def __init__(self, name: str, type: str) -> None:
            self.name, self.type = name, type

        def add_file(self, file: str) -> None:
            self.append(Path(file).name)

    def init(**options: Any) -> Any:
        calls.append(("init", options))
        return SimpleNamespace(
            id=options["id"],
            log=lambda numbers, step: calls.append(("log", (step, numbers))),
            log_artifact=lambda kept: calls.append(("artifact", (kept.name, kept.type, list(kept)))),
            finish=lambda exit_code: calls.append(("finish", exit_code)),
        )

    stand_in = SimpleNamespace(init=init, Settings=lambda **given: given, Artifact=Artifact)
    monkeypatch.setitem(sys.modules, "wandb", stand_in)
    monkeypatch.setattr("fedkin.core.errors.find_spec", lambda name: stand_in)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    return calls


def test_a_run_is_a_run_there_with_its_experiment_and_files(tmp_path: Path, said: list[tuple[str, Any]]) -> None:
    outcome = run(tmp_path / "first", TO, "method.rate=0.25", f"tracking.folder={tmp_path}/kept")
    kinds = [kind for kind, _ in said]
    assert kinds == ["init", "log", "log", "log", "log", "artifact", "finish"]
    options = said[0][1]
    assert (options["project"], options["name"], options["resume"]) == ("fedkin", "first", "allow")
    assert (options["config"]["method.rate"], options["dir"]) == (0.25, f"{tmp_path}/kept")
    assert "method: toy" in options["tags"]
    sent = [(step, numbers["traffic/sent_bytes"]) for _, (step, numbers) in said[1:5]]
    assert sent == [(line["step"], line["sent"]) for line in outcome.records]
    assert said[5][1] == (f"run-{options['id']}", "fedkin-run", ["result.json", "report.html"])
    assert said[6][1] == 0
