from pathlib import Path

import pytest

import entries
from fedkin.core import FedkinError
from fedkin.experiment.config import config_of
from fedkin.studies.reproduce.entry import experiment_of, plan_of


def test_settings_are_laid_on_top_of_each_other() -> None:
    scales = entries.tables()["scales"]
    scales["quick"] |= {"set": {"scenario.fraction": 0.2}, "only": {"k-FED": {"method.n_clusters": 8}, "p = 1": {}}}
    plan = plan_of("try", entries.entry(scales=scales), "quick")
    first = plan.cells[0].jobs[0][0].tables
    assert (first["method"]["name"], first["method"]["n_clusters"]) == ("kfed", 8)
    assert (first["scenario"]["fraction"], first["scenario"]["heterogeneity"], first["seed"]) == (0.2, 0.0, 0)
    assert first["engine"]["workers"] == 1
    assert plan.cells[2].jobs[0][0].tables["method"]["n_clusters"] == 10


def test_equal_experiments_are_one_run() -> None:
    rows = [{"name": name, "set": {"method.name": "kmeans", "method.n_clusters": 10}} for name in ("a", "b")]
    plan = plan_of("try", entries.entry(rows=rows, claims=[]), "paper")
    assert (len(plan.cells), len(plan.jobs)) == (4, 6)
    other = plan_of("other", entries.entry(rows=rows[:1], claims=[], title="Another"), "paper")
    assert plan.jobs.keys() == other.jobs.keys()


def test_a_row_may_be_a_mean_over_settings() -> None:
    over = [{"scenario.fraction": 0.1}, {"scenario.fraction": 0.2}]
    rows = [{"name": "k-FED", "set": {"method.name": "kfed", "method.n_clusters": 10}, "over": over}]
    plan = plan_of("try", entries.entry(rows=rows, claims=[]), "quick")
    assert [job.tables["scenario"]["fraction"] for job in plan.cells[0].jobs[0]] == [0.1, 0.2]


def test_files_have_a_place_of_their_own(tmp_path: Path) -> None:
    rows = [{"name": "e", "set": {"method.name": "embedding", "method.encoder": "file:small.safetensors"}}]
    changes = {
        "run": {"scenario": {"name": "label-flip", "clients": 4}}, "rows": rows, "claims": [], "measure": "ari",
        "columns": [{"name": "x"}],
        "files": [{"name": "small.safetensors", "data": "blobs", "epochs": 1}],
    }  # fmt: skip
    plan = plan_of("try", entries.entry(**changes), "quick")
    (job,) = plan.jobs.values()
    tables = experiment_of(job, tmp_path)
    place = Path(tables["method"]["encoder"])
    assert place.parent == (tmp_path / "files").resolve()
    assert place.name.startswith("small-")
    assert job.tables["method"]["encoder"] == "file:small.safetensors"
    assert config_of(tables).method.encoder == str(place)
    longer = entries.entry(**changes | {"files": [{"name": "small.safetensors", "data": "blobs", "epochs": 2}]})
    assert plan_of("try", longer, "quick").jobs.keys() != plan.jobs.keys()
    with pytest.raises(FedkinError, match=r"needs 'small\.safetensors', not among its files"):
        plan_of("try", entries.entry(**changes | {"files": []}), "quick")
