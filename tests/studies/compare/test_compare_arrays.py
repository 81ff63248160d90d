import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from torch import nn

import fedkin
from fedkin.core import FedkinError
from fedkin.data.reading.tables import frame_to_table
from fedkin.studies.compare import compare, compare_arrays
from fedkin.studies.compare.comparison_terminal import text_lines
from fedkin.studies.compare.judging import CandidateScore

RNG = np.random.default_rng(0)
TRUTH = [RNG.integers(0, 2, 40) for _ in range(2)]
SITES = [RNG.normal(size=(40, 2)) + 9 * y[:, None] for y in TRUTH]
pytestmark = pytest.mark.usefixtures("forked_workers")

OPTIONS = {"methods": ["kfed", "kmeans"], "n_clusters": 2, "budget": "1h", "seeds": 1, "settings": ["engine.workers=1"]}


def test_arrays_are_compared_as_files_are(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = fedkin.compare(SITES, TRUTH, out=out, **OPTIONS)
    assert found.recommended == "kfed"
    assert found.table.loc[found.table["recommended"], "ari"].tolist() == [1.0]
    assert found.truth_gap == 0
    assert not (out / "data").exists()  # no copy of the data is left
    assert found.use == (f"fedkin predict {out}/runs/kfed-2/seed-0 NEW.csv",)
    again = fedkin.compare([x.tolist() for x in SITES], TRUTH, out=out, **OPTIONS)
    assert again.lines == found.lines
    with pytest.raises(FedkinError, match=r"a comparison with other samples of client-0; give another out\."):
        fedkin.compare([x + 1 for x in SITES], TRUTH, out=out, **OPTIONS)
    with pytest.raises(FedkinError, match=r"a comparison with other samples of client-0"):
        fedkin.compare(SITES, out=out, **OPTIONS)
    with pytest.raises(FedkinError, match=r"holds a comparison with client-1.npz, too; give another out\."):
        fedkin.compare(SITES[:1], TRUTH[:1], out=out, **OPTIONS)


def keep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a comparison only copy the files that its runs would read, to `kept`, and return its question."""

    def copied(asked: Any, options: Any, folder: Path) -> Any:
        assert (folder / "data").stat().st_mode & 0o077 == 0
        shutil.copytree(folder / "data", folder / "kept", ignore=shutil.ignore_patterns("*.lock"))
        return asked

    monkeypatch.setattr("fedkin.studies.compare.compare_arrays.compared", copied)


def test_tables_are_kept_with_their_columns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    frames = [pd.DataFrame(x, columns=["a", "b"], index=range(40, 80)) for x in SITES]
    found = fedkin.compare(frames, TRUTH, out=tmp_path, **OPTIONS)
    assert found.table.loc[found.table["recommended"], "ari"].tolist() == [1.0]
    assert fedkin.compare(frames, TRUTH, out=tmp_path, **OPTIONS).lines == found.lines
    with monkeypatch.context() as patched:
        keep(patched)
        fedkin.compare(frames, TRUTH, out=tmp_path / "new", **OPTIONS)
    names = ["client-0.parquet", "client-1.parquet"]
    assert sorted(path.name for path in (tmp_path / "new" / "kept").iterdir()) == names
    kept = pd.read_parquet(tmp_path / "new" / "kept" / "client-1.parquet")
    assert list(kept.columns) == ["a", "b", "label"]
    assert kept["label"].tolist() == TRUTH[1].tolist()
    with pytest.raises(FedkinError, match=r"a comparison with other samples of client-0; give another out"):
        fedkin.compare([frame + 1 for frame in frames], TRUTH, out=tmp_path, **OPTIONS)
    with pytest.raises(FedkinError, match=r"^Client 0 has a column 'label', and labels were given as y, too; "):
        fedkin.compare([frame.assign(label=1) for frame in frames], TRUTH, out=tmp_path, **OPTIONS)
    with pytest.raises(FedkinError, match=r"^Column 'b' of Client 0 has 40 .*\nColumn 'b' of Client 1 has 40 "):
        fedkin.compare([frame.assign(b=np.inf) for frame in frames], TRUTH, out=tmp_path, **OPTIONS)
    with pytest.raises(FedkinError, match=r"'a\.csv' does not exist"):
        fedkin.compare(["a.csv", "b.csv"], out=tmp_path, **OPTIONS)


def test_labels_may_be_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = [[("sick", "well")[label] for label in own] for own in TRUTH]
    found = fedkin.compare(SITES, names, out=tmp_path / "list", **OPTIONS)
    assert found.table.loc[found.table["recommended"], "ari"].tolist() == [1.0]
    keep(monkeypatch)
    for kind in (list, pd.Series, np.array):
        fedkin.compare(SITES, [kind(own) for own in names], out=tmp_path / f"new {kind.__name__}", **OPTIONS)
        for path in (tmp_path / "new list" / "kept").iterdir():
            assert (tmp_path / f"new {kind.__name__}" / "kept" / path.name).read_bytes() == path.read_bytes()


def test_clients_are_kept_in_every_form_that_fit_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keep(monkeypatch)
    pairs = list(zip(SITES, TRUTH, strict=True))
    asked: Any = fedkin.compare(pairs, out=tmp_path / "pairs", **OPTIONS)
    with np.load(tmp_path / "pairs" / "kept" / "client-1.npz") as kept:
        assert kept["y"].tolist() == TRUTH[1].tolist()
    for name, (x, y) in zip(("north", "south"), pairs, strict=True):
        pd.DataFrame(x, columns=["a", "b"]).assign(kind=y).to_csv(tmp_path / f"{name}.csv", index=False)
    paths = [tmp_path / "north.csv", tmp_path / "south.csv"]
    asked = fedkin.compare(paths, "kind", out=tmp_path / "files", **OPTIONS)
    assert [path.name for path in sorted((tmp_path / "files" / "kept").iterdir())] == ["north.csv", "south.csv"]
    assert asked.tables["data"]["label"] == "kind"
    asked = fedkin.compare([pd.read_csv(path) for path in paths], "kind", out=tmp_path / "frames", **OPTIONS)
    assert list(pd.read_parquet(tmp_path / "frames" / "kept" / "client-0.parquet")) == ["a", "b", "kind"]
    assert asked.tables["data"]["label"] == "kind"
    with pytest.raises(FedkinError, match="Two clients' files have the same name; give clients in a dict by name"):
        fedkin.compare([paths[0], paths[0]], "kind", out=tmp_path / "twice", **OPTIONS)


def test_what_is_refused_leaves_no_client_behind(tmp_path: Path) -> None:
    gap = [SITES[0], np.where(SITES[1] > 8, np.nan, SITES[1])]
    half = pd.Series(["a"] * 39 + [None])
    calls = [
        (lambda: fedkin.compare(gap, TRUTH, out=tmp_path, **OPTIONS), "Client 1 has missing or infinite values"),
        (lambda: fedkin.compare(SITES, [TRUTH[0], half], out=tmp_path, **OPTIONS), "Client 1 lacks 1 of 40 labels"),
        (lambda: fedkin.compare([SITES[0], SITES[1][:, :1]], out=tmp_path, **OPTIONS), "all clients need the same"),
        (lambda: fedkin.compare(SITES, out=tmp_path, **OPTIONS | {"budget": "soon"}), "^budget is 'soon'"),
        (lambda: fedkin.compare(SITES, out=tmp_path, **OPTIONS | {"budget": -60}), "^budget is -60; it should be"),
        (lambda: fedkin.compare(SITES, out=tmp_path, **OPTIONS | {"n_clusters": 1}), "^n_clusters is 1; allowed: 2"),
        (lambda: fedkin.compare(SITES, out=tmp_path, **OPTIONS | {"methods": "kfedd"}), "Unknown method 'kfedd'"),
        (
            lambda: fedkin.compare(SITES, out=tmp_path, **OPTIONS | {"methods": "kfed+n_clusters=3"}),
            "'kfed[+]n_clusters=3' sets an option of a method, as `fedkin benchmark` takes it; ",
        ),
        (lambda: fedkin.compare(SITES, out=tmp_path, **OPTIONS | {"settings": ["data.x=1"]}), "data.x"),
        (lambda: fedkin.compare(SITES, out=tmp_path, by="truth", **OPTIONS), "^by truth needs a truth"),
        (lambda: fedkin.compare([], out=tmp_path, **OPTIONS), "The list of clients is empty; at least one is needed"),
    ]
    for call, sentence in calls:
        with pytest.raises(FedkinError, match=sentence):
            call()
        assert list(tmp_path.iterdir()) == []


def test_more_clients_than_were_compared_are_refused(tmp_path: Path) -> None:
    fedkin.compare(SITES, TRUTH, out=tmp_path, **OPTIONS)
    with pytest.raises(FedkinError, match=r"holds a comparison of 2 clients in memory; give another out\."):
        fedkin.compare([*SITES, SITES[0]], [*TRUTH, TRUTH[0]], out=tmp_path, **OPTIONS)


def test_the_seed_is_that_of_the_file_unless_one_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("fedkin.studies.compare.compare_arrays.compared", lambda asked, *_: asked)
    file = tmp_path / "mine.toml"
    file.write_text("seed = 7\n")
    assert [fedkin.compare(file, seed=seed).seed for seed in (None, 0, 3)] == [7, 0, 3]
    assert fedkin.compare("blobs").seed == 0


def test_labels_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FedkinError, match=r"y has 1 arrays of labels for 2 clients; give one for each\."):
        fedkin.compare(SITES, TRUTH[:1], out=tmp_path, **OPTIONS)
    with pytest.raises(FedkinError, match=r"y of client 1 has the shape \(7,\); it should be \(40,\)\."):
        fedkin.compare(SITES, [TRUTH[0], TRUTH[1][:7]], out=tmp_path / "new", **OPTIONS)
    with pytest.raises(FedkinError, match="Labels were given beside 'blobs', which has its own"):
        fedkin.compare("blobs", TRUTH, **OPTIONS)


def test_clients_keep_their_names_and_their_tables_columns_of_all_kinds(tmp_path: Path) -> None:
    kinds = [np.where(y == 1, "old", "new") for y in TRUTH]
    frames = {
        name: pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "kind": kind, "random": RNG.random(40) < 0.5})
        for name, x, kind in zip(("north", "a south"), SITES, kinds, strict=True)
    }
    frames["north"].loc[3, "a"] = np.nan
    labels = dict(zip(frames, TRUTH, strict=True))
    found = fedkin.compare(frames, labels, out=tmp_path, **OPTIONS)
    assert json.loads((tmp_path / "clients.json").read_text()).keys() == {"a south.parquet", "north.parquet"}
    assert found.truth_gap == 0
    assert found.table.loc[found.table["recommended"], "ari"].item() > 0.9
    assert found.confident
    with pytest.raises(FedkinError, match="Unknown client in y 'nort'; did you mean 'north'"):
        fedkin.compare(frames, {"nort": TRUTH[0], "a south": TRUTH[1]}, out=tmp_path / "new", **OPTIONS)
    with pytest.raises(FedkinError, match=r"Client '\.\./x' cannot be the name of a file"):
        fedkin.compare({"../x": SITES[0], "y": SITES[1]}, out=tmp_path / "new", **OPTIONS)
    assert not (tmp_path / "new").exists()


def test_runs_that_are_missing_or_disagree_are_reasons_for_doubt() -> None:
    schedule: Any = SimpleNamespace(seeds=3, judge=SimpleNamespace(guessed_accuracy=lambda: 0.35))
    score = CandidateScore({"accuracy": 0.30, "stability": 0.0}, {}, (), (3, 3), 1.0, 1.0, ())
    guess, missing, seeds = compare._doubts(schedule, score, None, [])
    assert "0.300" in guess
    assert missing.startswith("Only 2 of 3 runs finished")
    assert "ARI 0.00" in seeds
    sure = replace(score, measures={"accuracy": 0.9, "stability": 0.8}, clusters=(3, 3, 3))
    assert compare._doubts(schedule, sure, None, []) == []


def test_data_without_structure_are_recommended_nothing_with_confidence(tmp_path: Path) -> None:
    noise = [pd.DataFrame(RNG.normal(size=(60, 5))) for _ in range(2)]
    found = fedkin.compare(noise, out=tmp_path, **OPTIONS)
    assert not found.confident
    (warning,) = found.warnings
    assert warning.startswith("No method's clusters are better than chance: ")
    page = (tmp_path / "report.html").read_text().replace("&#39;", "'")
    assert f"<li>{warning}</li>" in page
    assert "chosen without the truth, without confidence" in page
    assert text_lines(found)[0].startswith("Recommended, but without confidence: kfed. ")
    assert json.loads((tmp_path / "comparison.json").read_text())["warnings"] == [warning]


def test_a_single_column_without_structure_is_no_better_than_points_without_any(tmp_path: Path) -> None:
    noise = [pd.DataFrame({"age": RNG.normal(size=60)}) for _ in range(2)]
    found = fedkin.compare(noise, out=tmp_path / "noise", **OPTIONS)
    assert not found.confident
    assert found.warnings[0].endswith("The data may have no clusters.")
    assert found.chance_p is not None
    assert found.chance_p > 0.05
    far = [pd.DataFrame({"age": RNG.normal(size=60) + np.arange(60) % 3 * 30}) for _ in range(2)]
    assert fedkin.compare(far, out=tmp_path / "far", **OPTIONS).confident


def test_a_column_that_explains_the_clusters_is_named(tmp_path: Path) -> None:
    tables = [pd.DataFrame(RNG.normal(size=(60, 3)), columns=["a", "b", "c"]) for _ in range(2)]
    tables = [table.assign(site=np.where(np.arange(60) < 30, 0.0, 40.0)) for table in tables]
    settings = ["engine.workers=1", "data.scaling=none"]
    found = fedkin.compare(tables, out=tmp_path, **OPTIONS | {"settings": settings})
    assert found.warnings[0].startswith("One column explains the clusters: they can be predicted from 'site' alone")
    assert "Warning: One column explains the clusters" in "\n".join(text_lines(found))


def test_what_no_file_holds_is_kept_so_that_it_is_read_alike() -> None:
    frame = pd.DataFrame(
        {
            "several": pd.Series([1, "a", "b", None] * 10, dtype=object),
            "huge": pd.Series([10**30, 1] * 20, dtype=object),
            "sparse": pd.arrays.SparseArray([0, 1] * 20),
            "range": pd.cut(np.arange(40), 4),
            "plain": np.arange(40.0),
        }
    )
    given = frame_to_table(frame, "It")
    kept = frame_to_table(pd.read_parquet(io.BytesIO(compare_arrays._content(frame, "it.parquet"))), "It")
    assert kept.columns == given.columns
    assert np.array_equal(kept.values.numpy(), given.values.numpy(), equal_nan=True)


def test_a_budget_may_be_a_number_of_seconds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("fedkin.studies.compare.compare_arrays.compared", lambda _, options, *rest: options.budget)
    assert [fedkin.compare("blobs", budget=given, out=tmp_path) for given in (60, 0.5, "2h")] == ["60s", "0.5s", "2h"]


def test_settings_may_be_a_dict_and_methods_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(compare_arrays, "question_of", lambda what, **given: asked.append(given) or 1 / 0)
    forms = [
        {"method.rounds": np.int64(3), "method.features": None, "data.drop": ["a"]},
        {"method": {"rounds": 3, "features": None}, "data": {"drop": ["a"]}},
    ]
    for settings in (*forms, "method.rounds=3"):
        with pytest.raises(ZeroDivisionError):
            fedkin.compare("digits", methods="kfed, kmeans", settings=settings)
    assert [one["settings"] for one in asked] == [
        *[["method.rounds=3", 'method.features="none"', 'data.drop=["a"]']] * 2,
        ["method.rounds=3"],
    ]
    assert {one["methods"] for one in asked} == {("kfed", "kmeans")}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["method.rounds"], r"^settings takes section\.key=value, such as .*, not 'method\.rounds'\.$"),
        ({"data.scalin": 1}, r"^Unknown key in settings: 'data\.scalin'; did you mean 'data\.scaling'\?$"),
        (
            {"data.scaling": object()},
            r"^'data\.scaling' in settings is an object, which no experiment's file can hold\.$",
        ),
        (
            {"method": {"module": nn.Linear}},
            r"^'method\.module' in settings is Linear itself, and .* such as 'networks:build'",
        ),
        ([("method.rounds", 3)], r"^settings has a tuple; it takes a dict, such as \{'method\.rounds': 10\}\.$"),
    ],
)
def test_settings_that_do_not_fit_are_refused_as_python_calls_them(
    settings: Any, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(FedkinError, match=sentence):
        fedkin.compare(SITES, methods=["kfed"], settings=settings, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        (
            {"seeds": [0, 1, 2]},
            r"^seeds is \[0, 1, 2\]; it takes one whole number, such as 3; seed is ",
        ),
        ({"n_clusters": "3"}, r"^n_clusters is '3'; it takes one whole number, such as 3\.$"),
    ],
)
def test_numbers_of_another_type_are_refused(argument: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(FedkinError, match=sentence):
        fedkin.compare(SITES, out=tmp_path / "out", **argument)


def test_a_run_is_no_data(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").touch()
    with pytest.raises(FedkinError, match=r"run' is the folder of a run; .*`fedkin costs RUN RUN`"):
        fedkin.compare(str(tmp_path / "run"), out=tmp_path / "out")


def test_an_option_of_a_method_is_no_argument_but_a_setting() -> None:
    with pytest.raises(
        TypeError, match=r"no argument 'rounds'; .*; options of methods are settings=\{'method\.rounds': "
    ):
        fedkin.compare(SITES, rounds=3)


def test_a_table_for_a_paper_has_deviations_over_runs(tmp_path: Path) -> None:
    options = {**OPTIONS, "methods": ["kfed"], "n_clusters": 3, "seeds": 3}
    found = fedkin.compare(SITES, TRUTH, out=tmp_path / "out", **options)
    scores = [
        json.loads(
            (tmp_path / "out" / "runs" / "kfed-3" / f"seed-{seed}" / "records.jsonl").read_text().splitlines()[-1]
        )
        for seed in range(3)
    ]
    each = [score["metrics"]["ari"] for score in scores]
    row = found.table.iloc[0]
    assert (row["ari"], row["ari_std"]) == (pytest.approx(np.mean(each)), pytest.approx(np.std(each, ddof=1)))
    assert row["cohesion_std"] >= 0
    assert row["cohesion_error"] == found.lines[0].error
    assert "ari_std" in pd.read_csv(tmp_path / "out" / "comparison.csv")
    assert repr(found) == (
        f"<Comparison of kfed, 3 clusters: kfed is recommended; see its table, and {tmp_path / 'out' / 'report.html'}>"
    )
    with pytest.raises(FedkinError, match=r"out holds another comparison: its method\.seeds is not set, not 4; give"):
        fedkin.compare(
            SITES, TRUTH, out=tmp_path / "out", **{**options, "settings": {"method.seeds": 4, "engine.workers": 1}}
        )
