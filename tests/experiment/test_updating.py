"""Next month: clusters keep their numbers and names, and what has changed is said."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedkin
from fedkin.clustering.matching import corresponding, table_of
from fedkin.data.encoding import Encoding
from fedkin.experiment.numbering import CHANGES, Earlier
from fedkin.experiment.run import resume
from fedkin.methods.samples.kfed import KFedMethod
from shell import fedkin as command

CENTRES = {"young": (20, 50), "middle": (50, 90), "old": (85, 60)}
SITES = ("north", "south", "west")


def patients(site: str, month: str, kinds: dict[str, int], shift: float = 0.0) -> pd.DataFrame:
    """Return planted rows of a site: so many of each kind, with ids; `shift` moves their ages."""
    rng = np.random.default_rng(sum(map(ord, site + month)))
    rows = [rng.normal(CENTRES[kind], (3, 5), (count, 2)) + np.array([shift, 0]) for kind, count in kinds.items()]
    frame = pd.DataFrame(np.concatenate([*rows]), columns=["age", "weight"])
    truth = [kind for kind, count in kinds.items() for _ in range(count)]
    return frame.assign(id=[f"{site}-{month}-{kind}-{i}" for i, kind in enumerate(truth)])


def write(folder: str, frames: dict[str, pd.DataFrame]) -> None:
    Path(folder).mkdir()
    for site, frame in frames.items():
        frame.to_csv(f"{folder}/{site}.csv", index=False)


def labels_of(path: str | Path) -> "pd.Series[int]":
    return pd.read_csv(path, index_col="id")["cluster"]


def kinds_of(run: str) -> dict[str, set[int]]:
    """Return the numbers of the clusters in which a run has each kind of planted row."""
    found: dict[str, set[int]] = {}
    for path in (Path(run) / "labels").iterdir():
        for row, cluster in labels_of(path).items():
            found.setdefault(str(row).split("-")[2], set()).add(int(cluster))
    return found


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "timing.jsonl")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def changes_of(run: str) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads((Path(run) / CHANGES).read_text())
    return tree


@pytest.fixture(autouse=True)
def _months(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """November at three sites; December's new rows at two of them and at a new one; and both months' rows."""
    monkeypatch.chdir(tmp_path)
    first = {site: patients(site, "nov", {"young": 30, "middle": 30, "old": 30}) for site in SITES}
    new = {site: patients(site, "dec", {"old": 10, "young": 12}) for site in ("north", "south", "east")}
    write("nov", first)
    write("dec", new)
    write("both", {site: pd.concat([f[site] for f in (first, new) if site in f])[::-1] for site in {**first, **new}})


def run(method: str, data: str, out: str, *more: str) -> None:
    assert command("run", method, data, "--out", out, "-q", "--set", "evaluation.map=none", *more) == 0


def named(out: str) -> dict[str, int]:
    """Name the clusters of a run after what was planted, and return their numbers."""
    numbers = {kind: min(clusters) for kind, clusters in kinds_of(out).items()}
    assert command("name", out, *(f"{number}={kind}" for kind, number in numbers.items())) == 0
    return numbers


def test_a_run_keeps_the_numbers_of_another() -> None:
    run("ffcm", "nov", "r1", "--clusters", "3")
    numbers, before = named("r1"), contents(Path("r1"))
    seeds = [seed for seed in range(1, 9) if (run("ffcm", "nov", f"s{seed}", "--clusters", "3", "--seed", str(seed)))
             or kinds_of(f"s{seed}") != kinds_of("r1")]  # fmt: skip
    seed = str(seeds[0])
    run("ffcm", "both", "r2", "--clusters", "3", "--seed", seed, "--like", "r1")
    assert contents(Path("r1")) == before
    assert kinds_of("r2") == {kind: {number} for kind, number in numbers.items()}
    assert json.loads(Path("r2/cluster_names.json").read_text()) == {str(numbers[kind]): kind for kind in numbers}
    tree = changes_of("r2")
    assert (tree["rows"], tree["moved"]) == (336, 0)
    assert {each["name"]: each["now"] - each["before"] for each in tree["clusters"]} == {
        "young": 36, "middle": 0, "old": 30
    }  # fmt: skip
    page = Path("r2/report.html").read_text()
    assert "What has changed" in page
    assert "north-" not in page, "no row is in the page"
    rows = command_output("predict", "r2", "both/north.csv", "--memberships")
    assert list(rows["cluster"]) == list(labels_of("r2/labels/north.csv"))
    assert list(rows[["membership_0", "membership_1", "membership_2"]].to_numpy().argmax(1)) == list(rows["cluster"])
    assert set(rows["cluster_name"]) == set(numbers)
    before = contents(Path("r2"))
    shutil.rmtree("r1")
    resume(Path("r2"))
    assert contents(Path("r2")) == before, "a finished run no longer needs the other"
    assert command("run", "ffcm", "nov", "--out", "r3", "--like", "r1") == 2
    assert not Path("r3").exists()


def test_clusters_without_rows_are_said_and_a_new_one_has_a_new_number() -> None:
    run("kfed", "dec", "r1", "--clusters", "2")
    run("kfed", "nov", "r2", "--clusters", "3", "--like", "r1")
    (new,) = [each for each in changes_of("r2")["clusters"] if not each["before"]]
    assert (new["cluster"], new["now"]) == (2, 90)
    run("kfed", "dec", "r3", "--clusters", "2", "--like", "r2")
    gone = [each for each in changes_of("r3")["clusters"] if not each["now"]]
    assert [each["before"] for each in gone] == [90]


def test_a_run_that_is_killed_at_its_end_is_resumed_to_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    run("kin-graph", "nov", "r1")
    run("kin-graph", "both", "whole", "--like", "r1")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fedkin.experiment.numbering.Changes.part", interrupt)
        assert (
            command("run", "kin-graph", "both", "--set", "evaluation.map=none", "--out", "killed", "--like", "r1")
            == 130
        )
    resume(Path("killed"))
    assert contents(Path("killed")) == contents(Path("whole"))


def command_output(*arguments: str) -> pd.DataFrame:
    assert command(*arguments, "--out", "rows.csv") == 0
    return pd.read_csv("rows.csv")


@pytest.mark.parametrize("like", ["nowhere", "clients", "damaged", "half", "other"])
def test_what_has_no_numbers_to_keep_is_refused_in_a_sentence(like: str, capsys: pytest.CaptureFixture[str]) -> None:
    run("kfed", "nov", "r1", "--clusters", "3")
    write("tall", {site: pd.DataFrame({"height": range(9), "id": range(9)}) for site in SITES})
    for copy in ("damaged", "half"):
        shutil.copytree("r1", copy)
    (Path("damaged") / "labels" / "north.csv").write_text("row,id\n")
    (Path("half") / "report.html").unlink()
    if like == "other":
        run("kfed", "tall", "other", "--clusters", "2")
    if like == "clients":
        quick = ["--set", "method.rounds=1", "--set", "simulation.clients=3"]
        assert command("run", "ifca", "digits", "--out", "clients", "-q", *quick) == 0
    before = sorted(path.name for path in Path().iterdir())
    capsys.readouterr()
    assert command("run", "kfed", "dec", "--clusters", "2", "--like", like, "--out", "new") == 2
    assert capsys.readouterr().err.count("\n") <= 2
    assert sorted(path.name for path in Path().iterdir()) == before


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.permutations(range(6)))
def test_numbers_follow_whatever_a_method_calls_clusters(before: list[int], order: list[int]) -> None:
    old = np.array(before)
    after = np.unique(np.array(order)[old], return_inverse=True)[1]
    encoding = Encoding.unchanged("none", (1,))
    earlier = Earlier("r1", KFedMethod, {"n_clusters": 9, "features": "raw"}, encoding, {})
    numbers = earlier.numbers(table_of(old, after, (9, 1)))
    assert np.array_equal(numbers.by_cluster.numpy()[after], old)
    assert numbers.count == 9, "numbers that were ever given are not given again"
    # Clusters with half of the rows of either in common have new numbers, and no two have the same.
    halves = np.arange(len(old)) % 2
    mixed = earlier.numbers(table_of(old, halves, (9, 2))).by_cluster.tolist()
    assert len(set(mixed)) == 2
    assert {number for number in mixed if number < 9} == set(corresponding(table_of(old, halves)))


@pytest.mark.parametrize(
    "make",
    [lambda: fedkin.KinGraph(random_state=0), lambda: fedkin.KMeans(n_clusters=3, random_state=1)],
    ids=["kin-graph", "anew"],
)
def test_an_estimator_keeps_numbers_and_names(make: Callable[[], Any]) -> None:
    first, both = ({path.stem: pd.read_csv(path) for path in sorted(Path(each).iterdir())} for each in ("nov", "both"))
    model = make().fit(first)
    old = {name: dict(zip(first[name]["id"], labels, strict=True)) for name, labels in model.labels_.items()}
    model.rename({int(old["north"]["north-nov-old-60"]): "old"})
    model.update(both)
    assert model.client_names_ == ["east", "north", "south", "west"]
    for name, rows in old.items():
        now = dict(zip(both[name]["id"], model.labels_[name], strict=True))
        assert [now[row] for row in rows] == list(rows.values())
    assert list(model.cluster_names_.values()) == ["old"]
    assert (model.changes_.rows, model.changes_.moved) == (336, 0)
    assert list(model.predict(both["north"])) == list(model.labels_["north"])


# Why.


@pytest.mark.parametrize("name", ["KinGraph", "KFed"])
def test_reasons_add_up_to_how_much_nearer_a_row_is(name: str) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(centre, 1, (60, 4)) for centre in (0, 8, 20)])
    model = getattr(fedkin, name)(n_clusters=3, random_state=0).fit([x[::2], x[1::2]])
    prepared = model.preparation_.apply(x)
    after, parts = model._method.contrast(model.result_, prepared)
    labels = torch.from_numpy(model.predict(x))
    points = model._method.embed(model.result_, prepared).double()
    if name == "KFed":
        means = model.result_["centroids"].double()
    else:
        nodes, weights = model.result_["centroids"].double(), model.result_["counts"].double()[:, None]
        inside = [model.result_["clusters"] == cluster for cluster in range(3)]
        means = torch.stack([(nodes[i] * weights[i]).sum(0) / weights[i].sum() for i in inside])
    away = torch.cdist(points, means).square()
    nearer = (away.gather(1, after[:, None]) - away.gather(1, labels[:, None]))[:, 0]
    torch.testing.assert_close(parts.sum(1), nearer, rtol=1e-3, atol=1e-3 * float(nearer.abs().max()))
    assert bool((after != labels).all())


def test_a_row_is_explained_in_the_units_of_the_data() -> None:
    frames = {}
    for site in SITES:
        rng = np.random.default_rng(len(site) + ord(site[0]))
        frame = patients(site, "nov", {"young": 30, "old": 30})
        frames[site] = frame.assign(noise=rng.normal(0, 1, 60), smokes=["no"] * 30 + ["yes"] * 30)
    write("smokers", frames)
    run("kfed", "smokers", "r1", "--clusters", "2")
    rows = command_output("predict", "r1", "smokers/north.csv", "--explain")
    assert (rows["cluster"] + rows["next_cluster"] == 1).all()
    assert rows["why"].str.contains("age ").mean() > 0.9
    assert rows["why"].str.contains("smokes (?:no|yes)").mean() > 0.9
    assert rows["why"].str.split(" ").str[0].ne("noise").mean() > 0.9
    table = fedkin.KFed(n_clusters=2, random_state=0).fit(frames).why(frames["north"])
    age = table[(table["row"] == 0) & (table["column"] == "age")].iloc[0]
    assert float(age["value"]) == pytest.approx(frames["north"]["age"][0], rel=1e-4)
    assert float(age["here"].split(" ")[0]) < 30 < float(age["there"].split(" ")[0])
    assert table["share"].between(0, 1).all()
    with pytest.raises(fedkin.FedkinError):
        fedkin.UIFCA(n_clusters=2, rounds=1, random_state=0).fit([np.eye(20), np.eye(20)]).why(np.eye(20))


def test_an_empty_cell_is_no_reason() -> None:
    frames = {site: patients(site, "nov", {"young": 30, "old": 30}) for site in SITES}
    asked = frames["north"][:8].assign(age=np.nan)
    table = fedkin.KFed(n_clusters=2, random_state=0).fit(frames).why(asked)
    assert set(table["column"]) == {"weight"}
