"""Two runs on the same samples or clients."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedkin
from shell import fedkin as command


@pytest.fixture
def _two_months(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs on two sites: later a row is new, rows stand in another order, and two people of each have changed."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for site in ("north", "south"):
        rows = np.concatenate([rng.normal(centre, 1, (30, 2)) for centre in (0, 30)])
        first = pd.DataFrame(rows, columns=["age", "weight"]).assign(id=[f"{site}-{row}" for row in range(60)])
        second = first.copy()
        second.loc[[0, 1], ["age", "weight"]] += 30
        second = pd.concat([second, pd.DataFrame({"age": [0.5], "weight": [0.5], "id": [f"{site}-60"]})])
        for month, frame in (("may", first), ("june", second[::-1])):
            Path(month).mkdir(exist_ok=True)
            frame.to_csv(f"{month}/{site}.csv", index=False)
    for month in ("may", "june"):
        assert command("run", "kfed", month, "--clusters", "2", "--out", f"runs/{month}", "-q") == 0


@pytest.mark.usefixtures("_two_months")
def test_who_moved_is_counted_and_rows_are_the_clients_own(capsys: pytest.CaptureFixture[str]) -> None:
    old = pd.read_csv("runs/may/labels/north.csv", index_col="id")["cluster"]
    assert command("name", "runs/may", f"{old['north-0']}=frail") == 0
    capsys.readouterr()
    assert command("diff", "runs/may", "runs/june", "--json") == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["common"] == {"north": 60, "south": 60}
    assert tree["moved"] == {"north": 2, "south": 2}
    assert sorted(each["members"] for each in tree["counts"]) == [4, 56, 60]
    assert sorted(tree["sizes_after"].values()) == [58, 64]
    assert list(tree["drifts"].values()) == []
    assert command("diff", "runs/may", "runs/june", "--out", "diff.html") == 0
    page = Path("diff.html").read_text()
    assert "frail" in page
    assert "north-0" not in page
    text = capsys.readouterr().out
    assert "120 samples in both; 4 in another cluster." in text
    assert "frail" in text
    assert "north-0" not in text
    moved = fedkin.diff("runs/may", "runs/june").moved["north"]
    assert sorted(moved.index) == ["north-0", "north-1"]
    assert list(moved) == ["before", "after"]
    assert command("diff", "runs/may", "may") == 2
    for month in ("may", "june"):  # what a site of a real federation has of a run
        site = Path("north", month, "labels")
        site.mkdir(parents=True)
        (site / "north.csv").write_bytes(Path("runs", month, "labels", "north.csv").read_bytes())
    assert len(fedkin.diff("north/may", "north/june").moved["north"]) == 2
    assert fedkin.diff("runs/may", "runs/may").ari == 1.0


def test_columns_that_differ_are_named_by_the_cluster_before() -> None:
    rng = np.random.default_rng(0)
    first = pd.DataFrame({"age": [*rng.normal(20, 2, 60), *rng.normal(80, 2, 60)], "weight": rng.normal(60, 2, 120)})
    second = first.assign(weight=[*first["weight"][:60], *(first["weight"][60:] + 3)])
    months = [fedkin.KFed(n_clusters=2, random_state=0).fit({"north": f, "south": f}) for f in (first, second)]
    difference = fedkin.diff(*months)
    young, old = (int(months[0].labels_["north"][row]) for row in (0, -1))
    assert difference.drifts[old][0].startswith("weight 6")
    assert not any(text.startswith("weight") for text in difference.drifts.get(young, []))


def test_rows_that_are_dealt_out_otherwise_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--set", "simulation.fraction=0.1", "--set", "evaluation.map=none", "-q"]
    for seed in "12":
        assert command("run", "kfed", *small, "--seed", seed, "--out", str(tmp_path / seed)) == 0
    assert command("diff", str(tmp_path / "1"), str(tmp_path / "2")) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert command("diff", str(tmp_path / "1"), str(tmp_path / "1")) == 0


def test_estimators_are_compared_by_the_order_of_rows() -> None:
    rng = np.random.default_rng(0)
    clients = {name: np.concatenate([rng.normal(c, 1, (30, 3)) for c in (0, 9, 40)]) for name in ("north", "south")}
    fine, coarse = (fedkin.KFed(n_clusters=k, local_clusters=k, random_state=0).fit(clients) for k in (3, 2))
    difference = fedkin.diff(fine, coarse)
    assert difference.common == {"north": 90, "south": 90}
    assert len(difference.matched) == 1, "two that are one now are neither of them"
    assert sum(map(len, difference.moved.values())) == 120
    with pytest.raises(fedkin.FedkinError):
        fedkin.diff(fine, fedkin.KFed())
