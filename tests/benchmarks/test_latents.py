"""Nearest neighbours by what a network makes of samples."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from fedkin.config import load_config
from fedkin.run import execute

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def latents() -> ModuleType:
    spec = importlib.util.spec_from_file_location("latents_benchmark", BENCHMARKS / "latents.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_majority_is_that_of_scikit_learns_neighbours(latents: ModuleType) -> None:
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(3, (300,), generator=rng)
    points = torch.eye(3)[y] + 0.6 * torch.randn(300, 3, generator=rng)
    held_out = torch.rand(300, generator=rng) < 0.2
    seen = latents.accuracies(points, y, held_out, [1, 5, 1000])
    unit = torch.nn.functional.normalize(points, dim=1).numpy()
    expected = []
    for k in (1, 5, int((~held_out).sum())):
        judge = KNeighborsClassifier(k).fit(unit[~held_out], y[~held_out])
        expected.append(judge.score(unit[held_out], y[held_out]))
    assert seen == pytest.approx(expected, abs=0.02)


def test_it_judges_a_run(
    latents: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["n_clusters=10", "pretrain_rounds=1", "cluster_rounds=0", "latent=4", "restarts=1", "model_weight=0"]
    settings = [f"method.{option}" for option in options]
    experiment = load_config("scfc", ["data.source=digits", "scenario.fraction=0.2", "evaluation.map=none", *settings])
    execute(experiment, tmp_path / "run")
    monkeypatch.setattr("sys.argv", ["latents.py", str(tmp_path / "run"), "--neighbours", "3", "50"])
    latents.main()
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines()]
    assert [row[0].strip() for row in rows] == ["representation", "---", "samples", "scfc"]
    assert 50 < float(rows[2][1]) <= 100
    assert 0 <= float(rows[3][2]) <= 100
