"""Finished runs made anew: a cut is a run that was given the number, forgetting leaves what a run without it leaves."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from fedkin.core import FedkinError
from fedkin.core.payload import load_tree
from fedkin.experiment.config import load_config
from fedkin.experiment.prediction import predict
from fedkin.experiment.revision import FORGOTTEN, cut, forget
from fedkin.experiment.run import execute, resume
from fedkin.experiment.run_folder import CHECKPOINT, LEDGER, is_finished, load_found
from site_files import sites

FEW = [
    "simulation.scenario=label-skew",
    "simulation.clients=5",
    "simulation.samples_per_class=20",
    "evaluation.map=none",
]
OWN = [*FEW, "method.common_micro_clusters=false"]
CLIENTS = [
    "simulation.clients=8",
    "simulation.samples_per_client=30",
    "method.rounds=2",
    "method.module=perceptron",
    "data.scaling=standard",
]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def labels(folder: Path) -> dict[str, bytes]:
    return contents(folder / "labels")


def like(run: Path) -> str:
    return f"evaluation.like={json.dumps(str(run))}"


def partition(files: dict[str, bytes]) -> set[frozenset[tuple[str, int]]]:
    """Return the clusters of labels as sets of rows, whatever their numbers."""
    members: dict[str, set[tuple[str, int]]] = {}
    for name, text in files.items():
        for row, line in enumerate(text.decode().splitlines()[1:]):
            members.setdefault(line.split(",")[1], set()).add((name, row))
    return {frozenset(each) for each in members.values()}


def certificate_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / FORGOTTEN).read_text())[-1]
    return found


@pytest.fixture(scope="module")
def kfed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return execute(load_config("kfed", FEW), tmp_path_factory.mktemp("kfed") / "run").folder


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return execute(load_config("kin-graph", OWN), tmp_path_factory.mktemp("graph") / "run").folder


def assert_a_whole_run(folder: Path) -> None:
    assert is_finished(folder)
    before = contents(folder)
    resume(folder)
    assert contents(folder).items() ^ before.items() <= {
        ("timing.jsonl", text) for text in (before["timing.jsonl"], (folder / "timing.jsonl").read_bytes())
    }


@pytest.mark.parametrize("method", ["kfed", "mufc"])
def test_exactly_forgotten_is_never_having_been_there(method: str, kfed: Path, tmp_path: Path) -> None:
    run = kfed if method == "kfed" else execute(load_config(method, FEW), tmp_path / "run").folder
    before = contents(run)
    outcome = forget(run, ["2"], tmp_path / "out")
    never = execute(load_config(method, [*FEW, "federation.forgotten=[2]", like(run)]), tmp_path / "never").folder
    assert contents(run) == before
    assert labels(outcome.folder) == labels(never) != labels(run)
    assert sorted(labels(outcome.folder)) == [f"client-{i}.csv" for i in (0, 1, 3, 4)]
    for name in ("config.toml", "result.json", "models.safetensors"):
        assert (outcome.folder / name).read_bytes() == (never / name).read_bytes()
    assert outcome.records[-1]["answered"] == [0, 1, 3, 4]
    ours, theirs = (load_tree(folder / CHECKPOINT) for folder in (outcome.folder, never))
    assert ours["state"]["owners"].unique().tolist() == [0, 1, 3, 4]
    assert all(torch.equal(ours["state"][name], theirs["state"][name]) for name in ("points", "sizes", "owners"))
    assert ours["clients"]["2"] == {}
    assert_a_whole_run(outcome.folder)
    assert predict(outcome.folder, "digits").count("\n") == 1798


def test_a_graph_without_a_client_is_the_graph_of_what_others_have_sent(graph: Path, tmp_path: Path) -> None:
    """From the space on, which stays: a run whose client answers no more has the same clusters."""
    exchanges = load_tree(graph / CHECKPOINT)["exchange"]
    lost = [f"[{exchange}, 2]" for exchange in range(exchanges - 1, exchanges + 9)]
    away = execute(load_config("kin-graph", [*OWN, f"simulation.failures=[{', '.join(lost)}]"]), tmp_path / "away")
    assert away.records[-1]["answered"] == [0, 1, 3, 4]
    outcome = forget(graph, [2], tmp_path / "out")
    away_rows = {name: text for name, text in labels(away.folder).items() if "2" not in name}
    assert partition(away_rows) == partition(labels(outcome.folder)) != partition(labels(graph))
    found, theirs = (load_found(folder).result for folder in (outcome.folder, away.folder))
    for name in ("centroids", "counts", "clusters"):
        assert torch.equal(found[name], theirs[name])
    assert_a_whole_run(outcome.folder)
    held = certificate_of(outcome.folder)["still_hold"]
    assert any(text.startswith("records.jsonl: that it answered in the steps that are kept") for text in held)
    assert any("models.safetensors: the axes of its space" in text for text in held)


@pytest.mark.parametrize(("method", "options"), [("ocfl", CLIENTS), ("ffcm", [*FEW, "method.rounds=3"])])
def test_retrained_it_has_the_bytes_of_a_run_without_the_client(
    method: str, options: list[str], tmp_path: Path
) -> None:
    run = execute(load_config(method, options), tmp_path / "run").folder
    outcome = forget(run, [2], tmp_path / "out")
    kept = [like(run)] if method == "ffcm" else []
    never = execute(load_config(method, [*options, "federation.forgotten=[2]", *kept]), tmp_path / "never").folder
    ours, theirs = contents(outcome.folder), contents(never)
    assert {name for name in ours if ours[name] != theirs.get(name)} == {FORGOTTEN, "timing.jsonl"}
    assert all(2 not in line["answered"] for line in outcome.records)
    found = certificate_of(outcome.folder)
    assert (found["way"], found["others_asked_again"]) == ("retrained", True)
    assert len(found["still_hold"]) == 1
    assert_a_whole_run(outcome.folder)


def test_two_that_write_to_one_folder_do_not_mix(kfed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusals: list[str] = []

    def meanwhile(*arguments: Any) -> Any:
        monkeypatch.setattr("fedkin.experiment.revision.execute", execute)
        with ThreadPoolExecutor() as threads:
            refusals.append(str(threads.submit(forget, kfed, ["2"], tmp_path / "out", True).exception()))
        return execute(*arguments)

    monkeypatch.setattr("fedkin.experiment.revision.execute", meanwhile)
    outcome = forget(kfed, ["2"], tmp_path / "out", retrain=True)
    assert len(refusals) == 1
    assert "Another process is at work" in refusals[0]
    assert is_finished(outcome.folder)
    assert [one["position"] for one in certificate_of(outcome.folder)["clients"]] == [2]


def test_the_server_of_a_real_federation_forgets_without_its_sites(tmp_path: Path) -> None:
    data = Path(sites(tmp_path / "data", labelled=False))
    name = sorted(path.name for path in data.iterdir())[1]
    options = [f"data.source={str(data)!r}", "simulation.scenario=files", "method.n_clusters=2", "evaluation.map=none"]
    local = execute(load_config("kfed", options), tmp_path / "local").folder
    run = tmp_path / "run"
    shutil.copytree(local, run, ignore=shutil.ignore_patterns("labels"))
    (run / LEDGER).write_text('{"run": "00", "sites": {}, "keys": {}}')
    here, there = (
        forget(local, [name], tmp_path / "here").folder,
        forget(run, [name], tmp_path / "there").folder,
    )
    assert (here / "models.safetensors").read_bytes() == (there / "models.safetensors").read_bytes()
    assert not (there / "labels").exists()
    assert (there / "report.html").is_file()
    state = load_tree(there / CHECKPOINT)["state"]
    assert not state["finished"], "its last step is to be done with the sites"
    assert 1 not in state["owners"]
    with pytest.raises(FedkinError, match="cannot be separated from the others'; only a run without it forgets it"):
        forget(run, [name], tmp_path / "never", retrain=True)


def test_what_cannot_be_forgotten_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    run = execute(load_config("kfed", [*FEW, "simulation.absent=0.3"]), tmp_path / "run").folder
    sent = load_tree(run / CHECKPOINT)["state"]["owners"].tolist()
    gone = next(i for i in range(5) if i not in sent)
    with pytest.raises(FedkinError, match=f"Client {gone} took no part in"):
        forget(run, [gone], tmp_path / "out")
    with pytest.raises(FedkinError, match="has no client north; allowed: 0 to 4"):
        forget(run, ["north"], tmp_path / "out")
    with pytest.raises(FedkinError, match="is not an empty folder"):
        forget(run, [next(i for i in range(5) if i != gone)], run)
    with pytest.raises(FedkinError, match="holds no run"):
        forget(tmp_path / "nowhere", [0], tmp_path / "out")
    (run / "report.html").unlink()
    with pytest.raises(FedkinError, match="has not finished; `fedkin resume"):
        forget(run, [gone], tmp_path / "out")
    with pytest.raises(FedkinError, match=r"'federation\.forgotten' names client 7; allowed: 0 to 4"):
        execute(load_config("kfed", [*FEW, "federation.forgotten=[7]"]), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return execute(load_config("kin-graph", TO_CUT), tmp_path_factory.mktemp("cut") / "run").folder


TO_CUT = ["simulation.fraction=0.3", "evaluation.map=pca"]


def test_a_cut_is_a_run_that_was_given_the_number(uncut: Path, tmp_path: Path) -> None:
    before = contents(uncut)
    outcome = cut(uncut, tmp_path / "cut", 5)
    assert outcome is not None
    direct = execute(load_config("kin-graph", [*TO_CUT, "method.n_clusters=5", like(uncut)]), tmp_path / "direct")
    assert contents(uncut) == before
    assert labels(outcome.folder) == labels(direct.folder) != labels(uncut)
    assert outcome.config == direct.config
    for ours, theirs in zip(outcome.records, direct.records, strict=True):
        assert ours["values"].items() <= theirs["values"].items()
        assert ours["metrics"] == theirs["metrics"]
        assert ours["answered"] == theirs["answered"]
    received = outcome.records[-1]["received"] - direct.records[-1]["received"]
    assert 0 <= received <= 20, "clients were asked for nothing, and answered so"
    assert outcome.records[-1]["sent"] > direct.records[-1]["sent"], "they were sent their clusters twice"
    assert outcome.n_clusters == 5


def test_a_folder_that_cannot_be_cut_is_refused_and_nothing_is_written(uncut: Path, kfed: Path, tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    for name in ("config.toml", "records.jsonl", "checkpoint.safetensors", "timing.jsonl"):
        shutil.copy(uncut / name, tmp_path / "half" / name)
    for folder, out, words in (
        (kfed, tmp_path / "cut", "cannot be cut again: its method keeps no clusters of clusters"),
        (tmp_path / "nowhere", tmp_path / "cut", "holds no run"),
        (uncut, kfed, "is not an empty folder"),
        (tmp_path / "half", tmp_path / "cut", "has not finished; `fedkin resume"),
    ):
        with pytest.raises(FedkinError, match=words):
            cut(folder, out, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["half"]


def test_a_cut_that_is_interrupted_leaves_nothing(uncut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedkin.experiment.revision.save_tree", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cut(uncut, tmp_path / "cut", 2)
    assert list(tmp_path.iterdir()) == []
