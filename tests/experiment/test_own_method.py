"""A method in a user's own module is named ``module:Class`` wherever a built-in one has a name."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from fedkin.cli import main
from fedkin.core import FedkinError
from fedkin.deploy.app_folder import init
from fedkin.deploy.site_app import read_site
from fedkin.engines.flower_engine.grid import FlowerFederation
from fedkin.experiment.config import load_config
from fedkin.experiment.prediction import predict
from fedkin.experiment.run import execute, resume
from nodes import federation, nodes_of

SOURCE = '''
from dataclasses import dataclass

from fedkin.core import task
from fedkin.methods.samples.kfed import KFedMethod


@dataclass(frozen=True)
class Mine(KFedMethod):
    """k-FED of my own.

    More.
    """

    def init(self, fed):
        fed.ask_until_all_reply(greet, {})
        return super().init(fed)


@task(takes={})
def greet(clients, payloads):
    """A task of my own."""
    return [{} for _ in clients]
'''
NAME = "own_package.mine:Mine"
SETTINGS = ["data.source=iris", "method.n_clusters=3", "evaluation.map=none"]


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "__init__.py").touch()
    (tmp_path / "own_package" / "mine.py").write_text(SOURCE)
    for name in ("own_package", "own_package.mine"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)


def test_it_runs_resumes_and_predicts(tmp_path: Path) -> None:
    config = load_config(NAME, SETTINGS)
    assert (config.method_name, config.simulation.scenario) == (NAME, "own-class")
    outcome = execute(config, tmp_path / "run")
    assert "nmi" in outcome.records[-1]["metrics"]
    assert resume(tmp_path / "run").records == outcome.records
    np.savez(tmp_path / "new.npz", x=np.zeros((2, 4), dtype=np.float32))
    assert predict(tmp_path / "run", str(tmp_path / "new.npz")).count("\n") == 3


def real_sites(folder: Path, packages: list[str]) -> FlowerFederation:
    """A federation of two sites whose files trust `packages`."""
    sites = []
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        np.savez(folder / name / "x.npz", x=np.random.default_rng(0).random((9, 2), dtype=np.float32))
        text = f'name = "{name}"\ndata = "x.npz"\nfolder = "private"\npackages = {json.dumps(packages)}\n'
        file = folder / name / "site.toml"
        file.write_text(text)
        sites.append(read_site(file))
    return federation(nodes_of(sites))


def test_real_sites_run_it_if_their_own_file_allows_its_package(tmp_path: Path) -> None:
    app = tmp_path / "app"
    init(app, NAME, 2, ["method.n_clusters=2"], "127.0.0.1", 9092, insecure=True)
    method = load_config(str(app / "experiment.toml")).method
    assert type(method).__name__ == "Mine"
    state = method.init(real_sites(tmp_path / "1", ["fedkin", "own_package"]))
    assert state is not None
    with pytest.raises(FedkinError, match=r"'own_package.mine' is not from fedkin, so this client does not run it"):
        method.init(real_sites(tmp_path / "2", ["fedkin"]))


@pytest.mark.parametrize("command", ["predict", "assign"])
def test_a_folder_cannot_name_code_of_packages_that_are_not_trusted(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(load_config(NAME, SETTINGS), tmp_path / "run")
    np.savez(tmp_path / "new.npz", x=np.zeros((2, 4), dtype=np.float32))
    for name in ("own_package", "own_package.mine"):
        del sys.modules[name]
    capsys.readouterr()
    asked = [command, str(tmp_path / "run"), str(tmp_path / "new.npz")]
    with pytest.raises(SystemExit):
        main(asked)
    assert capsys.readouterr().err == (
        "fedkin: 'own_package.mine' is not from fedkin, so it is not imported; --package allows another package that "
        "you trust.\n"
    )
    assert "own_package" not in sys.modules
    with pytest.raises(SystemExit):
        main([*asked, "--package", "own_package"])
    printed = capsys.readouterr()
    assert printed.out.count("\n") == 3 if command == "predict" else "use `fedkin predict`" in printed.err
