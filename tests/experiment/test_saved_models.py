"""Models of a run's folder as torch modules."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import fedkin
from fedkin.core import FedkinError
from fedkin.experiment.config import load_config
from fedkin.experiment.prediction import predict
from fedkin.experiment.run import execute

QUICK = ["method.rounds=2", "method.module=perceptron", "evaluation.map=none"]
GENERATOR = np.random.default_rng(0)


def hospital(unit: float, rows: int = 40) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "dose": GENERATOR.normal(5, 1, rows).round(2) * unit,
            "ward": GENERATOR.choice(["east", "west"], rows),
            "found": GENERATOR.choice(["sick", "well"], rows),
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clients' files with decimal commas, and -9 where the dose is missing."""
    folder = tmp_path_factory.mktemp("hospitals")
    for name, unit in (("north", 1.0), ("south", 1.1), ("west", 0.9)):
        frame = hospital(unit)
        frame.loc[3, "dose"] = -9
        frame.to_csv(folder / f"{name}.csv", index=False, decimal=",", sep=";")
    return folder


@pytest.fixture(scope="module")
def run(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "ifca"
    options = [f"data.source={files}", "scenario.name=files", "data.label=found", "data.decimal=,", "data.na_values=-9"]
    with pytest.warns(UserWarning, match=r"3 of 240 cells are empty"):
        execute(load_config("ifca", [*options, *QUICK, "method.n_clusters=2"]), folder)
    return folder


def test_a_module_says_what_fedkin_predict_says(run: Path, files: Path) -> None:
    found = fedkin.load_models(str(run))
    assert len(found.models) == 2
    assert not any(model.training for model in found.models)
    assert found.classes == ["sick", "well"]
    assert set(found.clusters) == {"north", "south", "west"}
    listed = pd.read_csv(run / "clients.csv")
    assert dict(zip(listed["name"], listed["cluster"], strict=True)) == found.clusters
    for name, cluster in found.clusters.items():
        with torch.no_grad():
            logits = found.models[cluster](found.preparation.apply(files / f"{name}.csv"))
        said = [line.split(",")[-1] for line in predict(run, str(files / f"{name}.csv"), client=name).splitlines()[1:]]
        assert [found.classes[one] for one in logits.argmax(1)] == said


def test_what_has_no_models_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(FedkinError, match=r"'.*nowhere' does not exist"):
        fedkin.load_models(tmp_path / "nowhere")
    with pytest.raises(FedkinError, match=r"holds no result"):
        fedkin.load_models(tmp_path)
    execute(load_config("kfed", ["evaluation.map=none"]), tmp_path / "samples")
    with pytest.raises(FedkinError, match=r"Method 'kfed' of .* clusters samples and has no models"):
        fedkin.load_models(tmp_path / "samples")


def test_a_module_of_another_package_is_imported_only_if_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = "nn.Sequential(nn.Flatten(), nn.Linear(64, classes))"
    text = f"from torch import nn\n\n\ndef make(shape, classes):\n    return {made}\n"
    (tmp_path / "ownnet.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    settings = ["scenario.clients=3", *QUICK, "method.module=ownnet:make"]
    execute(load_config("fedavg", settings), tmp_path / "run")
    with pytest.raises(FedkinError, match=r"'ownnet' is not from fedkin, so it is not imported; packages="):
        fedkin.load_models(tmp_path / "run")
    assert fedkin.load_models(tmp_path / "run", packages=["ownnet"]).models[0](torch.zeros(1, 64)).shape == (1, 10)
