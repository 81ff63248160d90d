"""Runs of methods that cluster clients: targets, evaluation, resuming, and clients that misbehave."""

from pathlib import Path

import pytest
import torch

from fedkin.core.runner import Progress
from fedkin.engines.local import LocalFederation
from fedkin.experiment.config import Config, load_config
from fedkin.experiment.run import RunOutcome, execute, resume
from toy_runs import files

SMALL = ["method.module=perceptron", "method.learning_rate=0.2", "simulation.clients=6", "method.local_epochs=2"]
LOSSY = ["simulation.drop_rate=0.2", "method.rounds=6", "method.participation=0.9", "seed=3"]


def small(method: str, *overrides: str) -> Config:
    """Federated learning on digits that takes a moment."""
    return load_config(method, [*SMALL, *overrides])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunOutcome]:
    """Runs that were never stopped."""
    folder = tmp_path_factory.mktemp("whole")
    return {name: execute(small(name, *LOSSY), folder / name) for name in ("ocfl", "ifca")}


class Interrupt(Progress):
    """Interrupts a run in the middle of an exchange of a step."""

    def __init__(self, step: int) -> None:
        self.name = f"Step {step}"
        self.present = ""

    def phase(self, text: str) -> None:
        self.present = text

    def part(self, done: int, total: int) -> None:
        if self.present == self.name and done < total:
            raise KeyboardInterrupt


@pytest.mark.parametrize("method", ["ocfl", "ifca"])
def test_a_run_that_clusters_clients_resumes_to_the_same_bytes(
    method: str, whole: dict[str, RunOutcome], tmp_path: Path
) -> None:
    expected = files(whole[method].folder)
    assert any(line["missing"] for line in whole[method].records)
    assert "clients.csv" in expected
    if method == "ocfl":  # clusters form while a client is away, which must not be forgotten either
        assert -1 in whole[method].records[2]["values"]["labels"]
    with pytest.raises(KeyboardInterrupt):
        execute(small(method, *LOSSY), tmp_path / "run", Interrupt(1))
    for step in (2, 3, 4, 6):  # again and again in the same run
        with pytest.raises(KeyboardInterrupt):
            resume(tmp_path / "run", Interrupt(step))
        assert len((tmp_path / "run" / "records.jsonl").read_text().splitlines()) == step - 1
    resume(tmp_path / "run")
    assert files(tmp_path / "run") == expected


SECRET = ["federation.secure_sums=true", "data.scaling=standard", "simulation.drop_rate=0.05"]


@pytest.mark.parametrize("method", ["fedopt", "ifca"])
def test_a_run_with_secure_sums_resumes_to_the_same_bytes(method: str, tmp_path: Path) -> None:
    config = small(method, *LOSSY, *SECRET, "method.rounds=4", "simulation.clients=9", "method.participation=0.8")
    whole = execute(config, tmp_path / "whole")
    assert any(line["missing"] for line in whole.records)
    assert any(line["answered"] for line in whole.records)
    with pytest.raises(KeyboardInterrupt):
        execute(config, tmp_path / "run", Interrupt(1))
    for step in (2, 4):
        with pytest.raises(KeyboardInterrupt):
            resume(tmp_path / "run", Interrupt(step))
    resume(tmp_path / "run")
    assert files(tmp_path / "run") == files(whole.folder)


def test_a_reached_target_ends_a_run(whole: dict[str, RunOutcome], tmp_path: Path) -> None:
    records = whole["ifca"].records
    reach = max(line["metrics"]["personal_accuracy"] for line in records[:4])
    first = next(at for at, line in enumerate(records) if line["metrics"]["personal_accuracy"] == reach)
    assert 0 < first < len(records) - 1
    target = ["evaluation.target=personal_accuracy", f"evaluation.reach={reach}"]
    outcome = execute(small("ifca", *LOSSY, *target, "evaluation.stop=true"), tmp_path / "run")
    assert outcome.records == records[: first + 1]
    assert outcome.state.finished
    assert (tmp_path / "run" / "result.json").is_file()
    before = files(tmp_path / "run")
    assert resume(tmp_path / "run").records == outcome.records
    assert files(tmp_path / "run") == before


class Corrupting(LocalFederation):
    """Client 1 always replies with NaN, client 4 with a vector that is too short."""

    def deliver(self, task, payloads):
        for client, reply in super().deliver(task, payloads):
            if isinstance(reply, dict) and "update" in reply and client == 1:
                reply = reply | {"update": torch.full_like(reply["update"], torch.nan)}
            if isinstance(reply, dict) and "update" in reply and client == 4:
                reply = reply | {"update": reply["update"][..., :-1]}
            yield client, reply


@pytest.mark.parametrize("method", ["fedavg", "ifca", "ocfl"])
def test_bad_clients_are_named_and_harm_no_model(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedkin.experiment.run.LocalFederation", Corrupting)
    config = small(
        method, "simulation.drop_rate=0.3", "simulation.clients=9", "method.rounds=10", "method.local_epochs=3"
    )
    outcome = execute(config, tmp_path / "run")
    assert len(outcome.records) == 10
    reasons: dict[str, set[str]] = {}
    for line in outcome.records:
        assert sorted([*line["answered"], *map(int, line["missing"])]) == list(range(9))
        assert not {1, 4} & set(line["answered"])
        for client, reason in line["missing"].items():
            reasons.setdefault(client, set()).add(reason)
    assert {reason.partition(":")[0] for reason in reasons["1"]} == {"'update' is not finite", "lost on purpose"}
    assert any("where (15010,) was expected" in reason for reason in reasons["4"])
    assert all(reasons[client] == {"lost on purpose"} for client in reasons.keys() - {"1", "4"})
    assert outcome.state.models.isfinite().all()
    assert outcome.records[-1]["metrics"]["personal_accuracy"] > (0.7 if method == "fedavg" else 0.85)
    if method != "fedavg":
        assert outcome.state.labels[[1, 4]].tolist() == [-1, -1]


@pytest.mark.parametrize(("name", "kept"), [("ifca", True), ("gradient-loss", False)])
def test_a_cluster_that_loses_all_its_clients_keeps_a_sound_model(name: str, kept: bool) -> None:
    config = small(name)
    fed = LocalFederation(config.scenario.build(0).clients)
    state = config.method.init(fed)
    state.models[1] = 30 * torch.randn(state.models.shape[1], generator=torch.Generator().manual_seed(0))
    left = state.models[1].clone()
    for _ in range(3):
        state, record = config.method.step(fed, state)
        assert len(record.answered) == 6
        assert state.models.isfinite().all()
    assert 1 not in state.labels
    assert record.values["clusters"] < 3
    assert torch.equal(state.models[1], left) is kept


CHANGING = [
    "simulation.clients=12",
    "simulation.step=3",
    "simulation.changed_fraction=0.4",
    "data.scaling=standard",
    *LOSSY,
]


@pytest.mark.parametrize(("method", "scenario"), [("ifca", "drift-swap"), ("ocfl", "arrivals")])
def test_a_run_whose_world_changes_resumes_to_the_same_bytes(method: str, scenario: str, tmp_path: Path) -> None:
    config = small(method, f"simulation.scenario={scenario}", *CHANGING)
    expected = execute(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        execute(config, tmp_path / "run", Interrupt(2))
    for step in (3, 3, 4, 6):  # in the step of the change, before and after
        with pytest.raises(KeyboardInterrupt):
            resume(tmp_path / "run", Interrupt(step))
    resume(tmp_path / "run")
    assert files(tmp_path / "run") == files(expected.folder)
    resume(tmp_path / "run")
    assert files(tmp_path / "run") == files(expected.folder)
