"""Runs on Flower's own SuperLink and SuperNodes, all on loopback."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.serverapp import Grid
from running import Deployment, Program, fedkin, wait_until
from safetensors.torch import load_file
from sklearn.datasets import load_digits

from fedkin.clustering.metrics import adjusted_rand
from fedkin.core.payload import load_tree
from fedkin.experiment.config import load_config
from fedkin.experiment.prediction import predict
from fedkin.experiment.run import execute

DONE = "fedkin: Done; results are in results"


def written(folder: Path, sites: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, Path]:
    """A file for each site, by name, in a folder that the local engine can read as well."""
    folder.mkdir()
    paths = {}
    for i, (x, y) in enumerate(sites):
        paths[f"site-{i}"] = folder / f"site-{i}.npz"
        np.savez(paths[f"site-{i}"], x=x.astype(np.float32), y=y)
    return paths


def digits(count: int, classes: int = 4, clusters: int = 1) -> list[tuple[np.ndarray, np.ndarray]]:
    """Digits, partitioned; site i sees some classes only, or, with `clusters`, all by the names of one of them."""
    x, y = load_digits(return_X_y=True)
    x = x / 16
    if clusters > 1:
        return [(x[i::count], (y[i::count] + 3 * (i % clusters)) % 10) for i in range(count)]
    held = [np.isin(y, [(i + k) % 10 for k in range(classes)]) for i in range(count)]
    return [(x[mask], y[mask]) for mask in held]


@contextmanager
def prepared(folder: Path, files: dict[str, Path], *arguments: str) -> Iterator[Deployment]:
    """A server that listens, and sites that have been started; all stopped at the end."""
    with Deployment(folder, *arguments, "--sites", str(len(files))) as deployed:
        deployed.start_server()
        for name, path in files.items():
            deployed.add_site(name, f'name = "{name}"\ndata = "{path}"\nfolder = "private"\n')
            deployed.start_site(name)
        yield deployed


def locally(deployed: Deployment, experiment: str, folder: Path, data: Path, *more: str) -> Path:
    """The same experiment on the local engine."""
    here = [f'data.source="{data}"', "simulation.engine=local", "evaluation.map=none", *more]
    return execute(load_config(deployed.app / experiment, here), folder).folder


def kept(deployed: Deployment, name: str) -> Path:
    """The folder of results of a site's last run."""
    runs = (deployed.folder / name / "private" / "results").iterdir()
    return max(runs, key=lambda path: path.stat().st_mtime)


def labels(path: Path) -> list[int]:
    return [int(line.split(",")[1]) for line in path.read_text().splitlines()[1:]]


def same_clusters(deployed: Deployment, local: Path, names: list[str]) -> float:
    """ARI of all samples' clusters at the sites with those of the local engine."""
    there = [cluster for name in names for cluster in labels(kept(deployed, name) / "labels" / f"{name}.csv")]
    here = [cluster for name in sorted(names) for cluster in labels(local / "labels" / f"{name}.csv")]
    return float(adjusted_rand(np.array(here), np.array(there)))


@pytest.mark.long
def test_two_sites_with_keys_find_what_the_local_engine_finds(tmp_path: Path) -> None:
    files = written(tmp_path / "data", digits(2, classes=6))
    settings = ("--set", "method.n_clusters=8", "--set", "data.scaling=none")  # an exchange is a process at every site
    with prepared(tmp_path, files, "kfed", *settings) as deployed:
        deployed.hears(deployed.run(), DONE, 900)
        local = locally(deployed, "experiment.toml", tmp_path / "local", tmp_path / "data")
        assert same_clusters(deployed, local, list(files)) == 1.0
        results = deployed.app / "results"
        assert steps(results) == steps(local)
        assert not (results / "labels").exists()  # they are the sites' own
        found, expected = (load_file(folder / "models.safetensors") for folder in (results, local))
        assert all(torch.allclose(found[key], expected[key], atol=1e-5) for key in expected)
        assert "clients took part; their samples never left them" in (results / "report.html").read_text()
        assert json.loads((results / "federation.json").read_text())["keys"] == (
            public_keys(deployed, files) if hasattr(Grid, "get_nodes") else {}  # which Flower tells since 1.38
        )


@pytest.mark.slow
def test_who_has_no_registered_or_another_key_is_refused(tmp_path: Path) -> None:
    files = written(tmp_path / "data", digits(2, classes=6))
    with prepared(tmp_path, files, "kfed", "--set", "method.n_clusters=8") as deployed:
        unknown = deployed.add_site("stranger", 'name = "x"\ndata = "x.npz"\nfolder = "private"\n', register=False)
        stranger = deployed.start_site(unknown.parent.name)
        add_impostor(deployed, files)
        run = deployed.run()
        deployed.hears(stranger, "did not let this site in: it is not there, has not registered", 300)
        stranger.kill()  # for it would go on trying
        refused = "Site 'site-1' has another key than 'federation.keys' lists for it."
        assert f"Refused: {refused}" in deployed.hears(run, DONE, 900)
        assert [refused] in [line.get("refused") for line in lines(deployed.app / "results" / "records.jsonl")]


def add_impostor(deployed: Deployment, files: dict[str, Path]) -> None:
    """List the sites' keys, and start a registered node that has another key and says that it is site-1."""
    listed = "".join(f"{name} = {key!r}\n" for name, key in public_keys(deployed, files).items())
    experiment = deployed.app / "experiment.toml"
    experiment.write_text(re.sub(r"(?m)^\[federation\.keys\]\n", "", experiment.read_text()))
    with experiment.open("a") as file:
        file.write(f"\n[federation.keys]\n{listed}")
    deployed.add_site("impostor", f'name = "site-1"\ndata = "{files["site-1"]}"\nfolder = "private"\n')
    log = deployed.folder / "server.log"
    before = log.read_text().count("Activated node_id")
    deployed.start_site("impostor")
    wait_until(lambda: log.read_text().count("Activated node_id") > before, 120, "the impostor is connected")


def public_keys(deployed: Deployment, names: Iterable[str]) -> dict[str, str]:
    return {name: (deployed.folder / name / "site.key.pub").read_text().strip() for name in names}


METHODS: dict[str, tuple[str, ...]] = {
    "fedcref": ("method.local_epochs=10", "method.rounds=3", "method.max_iterations=2"),
    "ifca": ("method.rounds=4", "method.n_clusters=2"),
    "embedding": ("method.rounds=2", "method.pretraining_rounds=2"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_four_sites_find_what_the_local_engine_finds(name: str, tmp_path: Path) -> None:
    files = written(tmp_path / "data", digits(4, clusters=2 if name in ("ifca", "embedding") else 1))
    options = [word for option in METHODS[name] for word in ("--set", option)]
    with prepared(tmp_path, files, name, "--insecure", *options) as deployed:
        deployed.hears(deployed.run(), DONE, 1800)
        for site, path in files.items():
            check_nothing_private(bytes(deployed.wires[site].crossed), path)
        local = locally(deployed, "experiment.toml", tmp_path / "local", tmp_path / "data")
        results = deployed.app / "results"
        if (local / "clients.csv").exists():
            assert clusters_of(results) == clusters_of(local)
            for i, site in enumerate(files):
                own = json.loads((kept(deployed, site) / "result.json").read_text())
                assert own["result"]["cluster"] == clusters_of(local)[i]
                assert predict(kept(deployed, site), str(files[site]), client=0) == predict(
                    local, str(files[site]), client=i
                )
        else:
            assert same_clusters(deployed, local, list(files)) == 1.0


def check_nothing_private(crossed: bytes, path: Path) -> None:
    """No row of samples and no labels among all the bytes that crossed to a site and from it."""
    with np.load(path) as file:
        x, y = file["x"], file["y"]
    assert x.astype(np.float64).sum(0).tobytes() in crossed  # what scaling asks for, as proof that it would be seen
    rows = [row for row in np.unique(x, axis=0) if len(np.unique(row)) > 5]
    assert not any(row.astype(kind).tobytes() in crossed for row in rows for kind in (np.float32, np.float64))
    assert not any(y.astype(kind).tobytes() in crossed for kind in (np.int64, np.int32, np.uint8))


def clusters_of(folder: Path) -> list[int]:
    return labels(folder / "clients.csv")


@pytest.mark.slow
def test_whoever_is_killed_comes_back_and_nothing_is_lost(tmp_path: Path) -> None:
    """The run is, to the last number, one in which the killed site did not answer in those rounds."""
    files = written(tmp_path / "data", digits(3, clusters=2))
    with prepared(tmp_path, files, "fedavg", "--set", "method.rounds=16") as deployed:
        run, results = deployed.run(), deployed.app / "results"
        deployed.hears(run, "fedkin: Step 2 in ", 600)
        deployed.sites["site-1"].kill()
        deployed.start_site("site-1")
        wait_until(lambda: missed(results) and 1 in steps(results)[-1]["answered"], 600, "it is back")
        (server,) = [program for program in deployed.programs if program.log.name == "server.log"]
        server.kill()
        done = steps(results)
        assert len(done) < 16
        deployed.start_server()
        again = deployed.run()
        deployed.hears(again, DONE, 900)
        assert steps(results)[: len(done)] == done
        assert f"fedkin: Step {len(done)} " not in again.said()
        lost = [f"[{1 + offset(results) + step}, {client}]" for step, client in missed(results)]
        local = locally(
            deployed,
            "experiment.toml",
            tmp_path / "local",
            tmp_path / "data",
            f"simulation.failures=[{', '.join(lost)}]",
        )
        assert missed(results) == missed(local)
        found, expected = (load_file(folder / "models.safetensors") for folder in (results, local))
        assert all(torch.allclose(found[key], expected[key], atol=1e-5) for key in expected)
        print("seconds of the steps:", [line["seconds"] for line in lines(results / "timing.jsonl")])


def missed(folder: Path) -> list[tuple[int, int]]:
    """Who was missing, as (step, client), steps counted from 0."""
    return [(at, int(client)) for at, line in enumerate(steps(folder)) for client in line["missing"]]


def offset(folder: Path) -> int:
    """Exchanges before the first step of federated averaging, which makes one in each."""
    return int(load_tree(folder / "checkpoint.safetensors")["exchange"]) - len(steps(folder))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def steps(folder: Path) -> list[dict[str, Any]]:
    """A run's records, without whom only a real federation refuses, and what only the local engine knows."""
    kept = lines(folder / "records.jsonl")
    return [{name: value for name, value in line.items() if name not in ("metrics", "refused")} for line in kept]


@pytest.mark.slow
def test_who_does_not_belong_is_refused_in_a_sentence_and_others_go_on(tmp_path: Path) -> None:
    files = written(tmp_path / "data", digits(3, classes=6))
    with prepared(tmp_path, files, "kfed", "--set", "method.n_clusters=8") as deployed:
        elsewhere = tmp_path / "elsewhere"
        fedkin("federation", "init", str(elsewhere), "kfed")
        shutil.rmtree(elsewhere / "fedkin_app")
        data = files["site-0"]
        deployed.add_site("distrusts", f'name = "site-8"\ndata = "{data}"\nfolder = "private"\n')
        deployed.add_site("double", f'name = "site-1"\ndata = "{data}"\nfolder = "private"\n')
        distrusts = deployed.start_site("distrusts", elsewhere / "certificates" / "ca.crt")
        deployed.start_site("double")
        run = deployed.run()
        found = deployed.hears(run, DONE, 900)
        assert "Refused: Another site is called 'site-1' already; every site needs a name of its own." in found
        deployed.hears(distrusts, ", is not the server of", 60)
        ledger = json.loads((deployed.app / "results" / "federation.json").read_text())
        assert list(ledger["sites"]) == list(files)
        experiment = deployed.app / "experiment.toml"
        experiment.write_text(experiment.read_text().replace("seed = 0", "seed = 1", 1))
        deployed.hears(deployed.run(), "results holds another experiment; give another folder", 60)


def test_what_init_writes_is_safe_unless_asked_otherwise(tmp_path: Path) -> None:
    closed = Deployment(tmp_path / "closed", "ocfl", "--host", "fed.example.org", "--set", "method.rounds=7")
    text = {path.name: path.read_text() for path in closed.app.rglob("*") if path.suffix in (".sh", ".md", ".toml")}
    assert "--enable-supernode-auth" in text["start-server.sh"]
    assert "--host 0.0.0.0" in text["start-server.sh"]
    assert "--insecure" not in text["start-server.sh"] + text["start-site.sh"] + text["flwr.sh"]
    for switch in ("TELEMETRY_ENABLED=0", "DISABLE_UPDATE_CHECK=1", "DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1"):
        assert f"export FLWR_{switch}" in text["environment.sh"]
    experiment = tomllib.loads(text["experiment.toml"])
    assert (experiment["method"]["rounds"], experiment["federation"]["sites"]) == (7, 3)
    for key in closed.app.glob("certificates/*.key"):
        assert key.stat().st_mode & 0o077 == 0
    open_ = Deployment(tmp_path / "open", "ocfl", "--insecure")
    assert not (open_.app / "certificates").exists()
    assert "nothing is encrypted" in (open_.app / "README.md").read_text()
    assert "--host 127.0.0.1" in (open_.app / "start-server.sh").read_text()


@pytest.mark.long
def test_sigterm_ends_all_processes_of_a_simulation(tmp_path: Path) -> None:
    constants = pytest.importorskip("ray._private.ray_constants")
    if not hasattr(constants, "RAY_DISABLE_FAILURE_SIGNAL_HANDLER"):
        pytest.skip("this Ray aborts on SIGTERM, and leaves its processes")
    words = ["run", "ditto", "--clients", "3", "--engine", "flower", "--set", "method.rounds=5000"]
    words += ["--out", tmp_path / "run"]
    program = Program([sys.executable, "-m", "fedkin", *words], tmp_path / "log")
    try:
        wait_until(lambda: list((tmp_path / "run").glob("clients/*/0/memory-*")), 900, "a client has done a task")
        family = program.family()
        program.process.terminate()
        assert program.process.wait(timeout=120) == 143
        wait_until(lambda: not family & program.family(), 60, "all of its processes have ended")
    finally:
        program.kill()
