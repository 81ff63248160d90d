import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fedkin.checkpoint import load_tree
from fedkin.config import Config, load_config
from fedkin.core import FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.run import Outcome, Progress, execute, report, resume
from toy import METHOD, Toy

pytestmark = pytest.mark.usefixtures("toy")

TESTS = Path(__file__).parent
OPTIONS = ["scenario.name=toy", "seed=3", "engine.drop_rate=0.2"]


def files(folder: Path) -> dict[str, bytes]:
    """Everything a run left that must not differ between two."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    del found["timing.jsonl"]
    return found


def run(folder: Path, *overrides: str) -> Outcome:
    return execute(load_config("toy", [*OPTIONS, *overrides]), folder)


def test_a_run_leaves_everything(tmp_path: Path) -> None:
    outcome = run(tmp_path / "run")
    assert set(files(tmp_path / "run")) == {
        "config.toml",
        "records.jsonl",
        "checkpoint.safetensors",
        "labels/site-0.csv",
        "labels/site-1.csv",
        "labels/site-2.csv",
        "result.json",
        "models.safetensors",
        "report.html",
    }
    lines = [json.loads(line) for line in (outcome.folder / "records.jsonl").read_text().splitlines()]
    assert lines == outcome.records
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert lines[0]["values"]["undefined"] is None
    assert all(sorted([*line["answered"], *map(int, line["missing"])]) == [0, 1, 2] for line in lines)
    assert any(line["missing"] for line in lines)
    assert lines[-1]["sent"] > lines[0]["sent"] > 0
    rows = (outcome.folder / "labels" / "site-0.csv").read_text().splitlines()
    assert rows[0] == "row,group"
    assert len(rows) == 7
    assert outcome.report.is_file()


def test_the_same_seed_gives_the_same_bytes_whatever_the_chunk(tmp_path: Path) -> None:
    found = {}
    for name, chunk in (("one", 1), ("again", 1), ("all", 3)):
        run(tmp_path / name, f"engine.chunk={chunk}")
        found[name] = files(tmp_path / name)
    assert found["one"] == found["again"]
    different = {name for name, content in found["one"].items() if content != found["all"][name]}
    assert different == {"config.toml", "report.html"}


def killed(*arguments: str) -> int:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    script = [sys.executable, str(TESTS / "killing.py"), *arguments]
    return int(subprocess.run(script, env=environment, capture_output=True, text=True, check=True).stdout)


def test_killed_before_any_file_is_in_place_a_run_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    run(tmp_path / "whole", "method.pause=0.01", "method.rounds=2")
    kills = killed("2", str(tmp_path / "killed"), "moves")
    assert kills > 1 + 1 + 3 * 2 + 3
    for number in range(kills):
        assert files(tmp_path / "killed" / str(number)) == files(tmp_path / "whole"), f"killed before move {number + 1}"


def test_killed_at_many_moments_a_run_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    run(tmp_path / "whole", "method.pause=0.01", "method.rounds=6")
    assert killed("6", str(tmp_path / "killed"), "0.02") > 3
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


def test_a_full_disk_stops_a_run_that_then_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path / "whole")
    real, room = os.replace, 8

    def replace(*names: Path) -> None:
        nonlocal room
        room -= 1
        if room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(*names)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(FedkinError, match="No space left on device"):
            run(tmp_path / "full")
    assert not list((tmp_path / "full").rglob("*.partial"))
    resume(tmp_path / "full")
    assert files(tmp_path / "full") == files(tmp_path / "whole")


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    run(tmp_path / "run")
    before = files(tmp_path / "run")
    (tmp_path / "run" / "report.html").unlink()
    resume(tmp_path / "run")
    assert files(tmp_path / "run") == before


def test_a_report_is_written_again(tmp_path: Path) -> None:
    outcome = run(tmp_path / "run")
    page = outcome.report.read_bytes()
    outcome.report.unlink()
    assert report(tmp_path / "run").read_bytes() == page


@pytest.mark.parametrize("content", [None, ""])
def test_lost_records_are_told(content: str | None, tmp_path: Path) -> None:
    run(tmp_path / "run")
    records = tmp_path / "run" / "records.jsonl"
    records.unlink() if content is None else records.write_text(content)
    with pytest.raises(FedkinError, match="has 0 lines where the checkpoint has 4 steps"):
        resume(tmp_path / "run")


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FedkinError, match="is not an empty folder; give another --out, or `fedkin resume` it"):
        run(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_refused_data_leave_no_folder(tmp_path: Path) -> None:
    config = load_config("toy", ["data.source=nowhere.csv"])
    with pytest.raises(FedkinError, match=r"nowhere\.csv"):
        execute(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_refused_start_leaves_the_folder_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise FedkinError("Not today.")

    with monkeypatch.context() as patch:
        patch.setattr(Toy, "init", refuse)
        with pytest.raises(FedkinError, match="Not today"):
            run(tmp_path / "run")
    assert list((tmp_path / "run").iterdir()) == []
    run(tmp_path / "run")


@pytest.mark.parametrize("ask", [resume, report])
def test_a_folder_without_a_run_is_told(ask, tmp_path: Path) -> None:
    with pytest.raises(FedkinError, match=r"holds no run: config\.toml is absent"):
        ask(tmp_path)


def test_nothing_to_report_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(load_config("toy", OPTIONS).to_toml())
    with pytest.raises(FedkinError, match="nothing to report yet; go on with `fedkin resume"):
        report(tmp_path)


def test_progress_is_told_within_a_step(tmp_path: Path) -> None:
    told: list[tuple] = []

    class Watch(Progress):
        def phase(self, text: str) -> None:
            told.append((text,))

        def part(self, done: int, total: int) -> None:
            told.append((done, total))

        def step(self, line: dict, seconds: float) -> None:
            told.append((line["step"], "done", seconds >= 0))

    execute(load_config("toy", ["scenario.name=toy", "engine.chunk=1", "method.rounds=1"]), tmp_path / "run", Watch())
    step = told[told.index(("Step 1",)) :]
    assert step == [("Step 1",), (1, 3), (2, 3), (3, 3), (1, "done", True), ("Writing the results",)]


def test_metrics_go_into_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate(method, population, fed, state):
        return {"truths": sum(map(len, population.truth)), "place": float(fed.clients[0].state["place"][0])}

    def evaluator_for(method, models_too):
        return evaluate if isinstance(method, Toy) else None

    monkeypatch.setattr("fedkin.run.evaluator_for", evaluator_for)
    records = run(tmp_path / "run").records
    assert [line["metrics"]["truths"] for line in records] == [18] * 4
    assert load_tree(tmp_path / "run" / "checkpoint.safetensors")["exchange"] > 4
    assert METHOD.target not in (tmp_path / "run" / "records.jsonl").read_text()


SMALL = ["method.module=perceptron", "method.learning_rate=0.2", "scenario.clients=6", "method.local_epochs=2"]


def small(method: str, *overrides: str) -> Config:
    """Federated learning on digits that takes a moment."""
    return load_config(method, [*SMALL, *overrides])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Runs that were never stopped."""
    folder = tmp_path_factory.mktemp("whole")
    return {name: execute(small(name, *LOSSY), folder / name) for name in ("ocfl", "ifca")}


LOSSY = ["engine.drop_rate=0.2", "method.rounds=6", "method.participation=0.9", "seed=3"]


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
def test_a_run_that_groups_clients_resumes_to_the_same_bytes(
    method: str, whole: dict[str, Outcome], tmp_path: Path
) -> None:
    expected = files(whole[method].folder)
    assert any(line["missing"] for line in whole[method].records)
    assert "clients.csv" in expected
    if method == "ocfl":  # groups form while a client is away, which must not be forgotten either
        assert -1 in whole[method].records[2]["values"]["labels"]
    with pytest.raises(KeyboardInterrupt):
        execute(small(method, *LOSSY), tmp_path / "run", Interrupt(1))
    for step in (2, 3, 4, 6):  # again and again in the same run
        with pytest.raises(KeyboardInterrupt):
            resume(tmp_path / "run", Interrupt(step))
        assert len((tmp_path / "run" / "records.jsonl").read_text().splitlines()) == step - 1
    resume(tmp_path / "run")
    assert files(tmp_path / "run") == expected


def test_a_reached_target_ends_a_run(whole: dict[str, Outcome], tmp_path: Path) -> None:
    records = whole["ifca"].records
    reach = records[2]["metrics"]["personal_accuracy"]
    first = next(at for at, line in enumerate(records) if line["metrics"].get("personal_accuracy", 0) >= reach)
    target = ["target.metric=personal_accuracy", f"target.reach={reach}"]
    outcome = execute(small("ifca", *LOSSY, *target, "target.stop=true"), tmp_path / "run")
    assert outcome.records == records[: first + 1]
    assert outcome.state.finished
    assert (tmp_path / "run" / "result.json").is_file()
    before = files(tmp_path / "run")
    assert resume(tmp_path / "run").records == outcome.records
    assert files(tmp_path / "run") == before


@pytest.mark.parametrize("target", [[], ["target.metric=loss", "target.reach=0.0"], ["target.metric=none"]])
def test_without_a_stop_a_target_ends_nothing(target: list[str], whole: dict[str, Outcome], tmp_path: Path) -> None:
    outcome = execute(small("ifca", *LOSSY, *target), tmp_path / "run")
    assert outcome.records == whole["ifca"].records


def test_models_are_tried_every_so_many_steps_and_at_the_end(whole: dict[str, Outcome], tmp_path: Path) -> None:
    config = small("ifca", *LOSSY, "evaluation.every=4")
    records = execute(config, tmp_path / "run").records
    assert ["personal_accuracy" in line["metrics"] for line in records] == [False, False, False, True, False, True]
    for line, full in zip(records, whole["ifca"].records, strict=True):
        assert line["metrics"].items() <= full["metrics"].items()
        assert "ari" in line["metrics"]
        assert line | {"metrics": {}} == full | {"metrics": {}}


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
    monkeypatch.setattr("fedkin.run.LocalFederation", Corrupting)
    config = small(method, "engine.drop_rate=0.3", "scenario.clients=9", "method.rounds=10", "method.local_epochs=3")
    outcome = execute(config, tmp_path / "run")
    assert len(outcome.records) == 10
    reasons: dict[str, set[str]] = {}
    for line in outcome.records:
        assert sorted([*line["answered"], *map(int, line["missing"])]) == list(range(9))
        assert not {1, 4} & set(line["answered"])
        for client, reason in line["missing"].items():
            reasons.setdefault(client, set()).add(reason)
    assert reasons["1"] == {"'update' is not finite", "lost on purpose"}
    assert any("where (15010,) was expected" in reason for reason in reasons["4"])
    assert all(reasons[client] == {"lost on purpose"} for client in reasons.keys() - {"1", "4"})
    assert outcome.state.models.isfinite().all()
    assert outcome.records[-1]["metrics"]["personal_accuracy"] > (0.7 if method == "fedavg" else 0.85)
    if method != "fedavg":
        assert outcome.state.labels[[1, 4]].tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("method", "kept"),
    [("ifca", True), ("gradient-loss", False), ("gradient-loss method.empty=keep", True)],
)
def test_a_group_that_loses_all_its_clients_keeps_a_sound_model(method: str, kept: bool) -> None:
    name, *overrides = method.split()
    config = small(name, *overrides)
    fed = LocalFederation(config.scenario.build(0).clients)
    state = config.method.init(fed)
    state.models[1] = 30 * torch.randn(state.models.shape[1], generator=torch.Generator().manual_seed(0))
    left = state.models[1].clone()
    for _ in range(3):
        state, record = config.method.step(fed, state)
        assert len(record.answered) == 6
        assert state.models.isfinite().all()
    if kept:
        assert 1 not in state.labels
        assert torch.equal(state.models[1], left)
        assert record.values["groups"] < 3
    else:
        assert 1 in state.labels
        assert not torch.equal(state.models[1], left)
