"""Commands on finished runs."""

import json
from pathlib import Path

import numpy as np
import pytest

import planted
from fedkin.cli.folder_commands import _beside
from shell import fedkin


def test_clients_are_clustered_and_served(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    quick = ["--clients", "3", "--out", "run", "--set", "method.module=perceptron", "--set", "method.rounds=2"]
    assert fedkin("run", "local", *quick) == 0
    assert capsys.readouterr().err == ""
    assert (tmp_path / "run" / "clients.csv").read_text() == "client,cluster\n0,0\n1,1\n2,2\n"
    assert fedkin("predict", "run", "digits", "--client", "1") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("row,class\n0,")
    assert {line.split(",")[1] for line in printed.splitlines()[1:]} <= set("456")
    assert fedkin("predict", "run", "digits", "--client", "1", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [f"{row['row']},{row['class']}" for row in rows] == printed.splitlines()[1:]
    assert fedkin("predict", "run", "digits", "--client", "1", "--out", "new.csv") == 0
    assert (tmp_path / "new.csv").read_text() == printed
    rows = np.random.default_rng(0).random((5, 1, 8, 8), dtype=np.float32)
    np.savez(tmp_path / "new.npz", x=rows, y=np.array(["4", "5", "6", "5", "4"]))
    np.savez(tmp_path / "plain.npz", x=rows)
    capsys.readouterr()
    assert fedkin("assign", "run", "new.npz") == 0
    assert capsys.readouterr() == ("1\n", "")
    for arguments, sentence in (
        ("predict run digits", "run has a model for each cluster of clients; say by --client whose model predicts; "),
        ("predict run digits --client 3", "run has no client 3; "),
        ("assign run wine", "'wine' has the class 'class_0', which the run does not know."),
        ("assign run plain.npz", "'plain.npz' has no labels, by which a client finds its cluster; "),
        ("assign nowhere digits", "'nowhere' does not exist; give the folder of a run."),
    ):
        assert fedkin(*arguments.split()) == 2, arguments
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith(f"fedkin: {sentence}")
        assert shown.err.count("\n") == 1


def test_a_new_client_with_decimal_commas_is_assigned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shops").mkdir()
    rng = np.random.default_rng(0)

    def table(flipped: bool, words: tuple[str, str], comma: bool = False) -> str:
        x = rng.normal(size=(150, 2)).round(3)
        x = np.sign(x) * (1 + np.abs(x)).round(3)  # all such as 1.234
        x[np.round(x * 1000) % 10 == 0] += 0.001
        rows = [[f"{a}", f"{b}", words[int((a > 0) ^ flipped)]] for a, b in x.round(3).tolist()]
        lines = [["heat", "noise", "worn"], *rows]
        return "\n".join(";".join(row).replace(".", ",") if comma else ",".join(row) for row in lines) + "\n"

    for name, flipped in {"a": False, "b": True, "c": False, "d": True}.items():
        (tmp_path / "shops" / f"{name}.csv").write_text(table(flipped, ("no", "yes")))
    (tmp_path / "new.csv").write_text(table(True, ("no", "yes"), comma=True))
    asks = ["--set", "data.label=worn", "--set", "method.rounds=4", "--set", "method.n_clusters=2", "--out", "run"]
    assert fedkin("run", "ifca", "shops", *asks, "--quiet") == 0
    capsys.readouterr()
    assert fedkin("assign", "run", "new.csv") == 2
    said = capsys.readouterr().err
    assert "give --decimal ','" in said
    assert "--set" not in said
    assert fedkin("assign", "run", "new.csv", "--decimal", ",") == 0
    clusters = [line.split(",")[1] for line in (tmp_path / "run" / "clients.csv").read_text().splitlines()[1:]]
    assert planted.same_partition([int(one) for one in clusters], [0, 1, 0, 1])
    assert capsys.readouterr().out.strip() == clusters[1]


def test_a_method_that_cannot_predict_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from toy import Toy

    assert fedkin("run", "toy", "--scenario", "toy", "--out", "run") == 0
    monkeypatch.delattr(Toy, "predict")
    capsys.readouterr()
    assert fedkin("predict", "run", "wine") == 2
    assert capsys.readouterr().err == "fedkin: Method 'toy' of run does not assign new samples to clusters.\n"


def test_a_run_is_cut_again_into_a_folder_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--set", "scenario.fraction=0.1", "--set", "evaluation.map=pca", "--out", "run"]
    assert fedkin("run", "kin-graph", *small) == 0
    assert fedkin("cut", "run", "--clusters", "4") == 0
    assert "Clusters found" in capsys.readouterr().out
    assert Path("run-4-clusters/report.html").is_file()
    assert fedkin("cut", "run", "--resolution", "1.5", "--out", "fine") == 0
    assert Path("fine/labels").is_dir()
    capsys.readouterr()
    for arguments, sentence in (
        (["run"], "Give either a number of clusters, as --clusters 5, or a resolution, as --resolution 0.5."),
        (["run", "--clusters", "4"], "run-4-clusters is not an empty folder; give another --out."),
        (["run", "--clusters", "0"], "'method.n_clusters' is 0 on the command line"),
        (["nowhere", "--clusters", "2"], "'nowhere' does not exist"),
    ):
        assert fedkin("cut", *arguments) == 2
        assert capsys.readouterr().err.startswith(f"fedkin: {sentence}")
    assert sorted(path.name for path in Path().iterdir()) == ["fine", "run", "run-4-clusters"]


def test_a_client_is_forgotten_into_a_folder_beside_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--set", "scenario.fraction=0.1", "--set", "evaluation.map=none", "--out", "run", "--quiet"]
    assert fedkin("run", "kfed", *small) == 0
    assert fedkin("forget", "run", "--client", "3", "--dry-run") == 0
    said = "Client 3 will be left out of what the other 9 clients have sent: clusters are formed again"
    assert capsys.readouterr().out.startswith(said)
    assert [path.name for path in Path().iterdir()] == ["run"]
    assert fedkin("forget", "run", "--client", "3") == 0
    printed = capsys.readouterr()
    assert printed.err.startswith(said)
    assert "Report: run-without-3/report.html" in printed.out
    assert fedkin("forget", "run", "--client", "3", "--client", "5", "--retrain", "--in-place", "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    assert json.loads(Path("run/forgotten.json").read_text())[0]["way"] == "retrained"
    for arguments, sentence in (
        (["run"], "Missing option '--client'"),
        (["run", "--client", "3"], "Client 3 of run is forgotten already."),
        (["run", "--client", "north"], "run has no client north; allowed: 0 to 9."),
        (["run", "--client", "1", "--in-place", "-o", "other"], "--in-place and --out were both given"),
        (["nowhere", "--client", "2"], "'nowhere' does not exist"),
    ):
        assert fedkin("forget", *arguments) == 2
        assert capsys.readouterr().err.startswith(f"fedkin: {sentence}")
    assert sorted(path.name for path in Path().iterdir()) == ["run", "run-without-3"]


def test_a_server_that_forgets_a_site_says_how_the_others_get_their_clusters(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The server starts in its own folder, so that a path relative to the shell's would be another there."""
    rows = np.random.default_rng(0).random((90, 2)).round(3)
    for at, name in enumerate(("north", "south", "west")):
        np.savez(tmp_path / f"{name}.npz", x=rows[at::3])
    assert fedkin("run", "kfed", ".", "--set", "method.n_clusters=2", "--out", "out/run", "--quiet") == 0
    Path("out/run/federation.json").write_text('{"run": "00", "sites": {}, "keys": {}}')
    assert fedkin("forget", "out/run", "--client", "south") == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith(
        f'config.toml, copied to its experiment.toml, with out = "{tmp_path / "out" / "run-without-south"}".'
    )


def test_a_run_without_clients_is_called_after_them() -> None:
    run = Path("runs/kfed")
    assert _beside(run, [1], ["a.csv", "Labor München.csv"]) == Path("runs/kfed-without-Labor-München")
    assert _beside(run, [0, 2], []) == Path("runs/kfed-without-0-2")
    assert _beside(run, [0, 1], ["x" * 60, "y" * 60]) == Path("runs/kfed-without-0-1")


def test_new_rows_in_another_unit_are_noted_beside_the_prediction(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "sites").mkdir()
    rows = "".join(f"{60 + row % 20},{row % 7}\n" for row in range(40))
    for name in ("sites/a.csv", "sites/b.csv", "new.csv"):
        (tmp_path / name).write_text("weight,visits\n" + (rows if "/" in name else "60000,1\n70000,2\n80000,3\n"))
    assert fedkin("run", "kfed", "sites", "--out", "run", "--clusters", "2") == 0
    capsys.readouterr()
    assert fedkin("predict", "run", "new.csv") == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 4
    assert shown.err == (
        "fedkin: All values of column 'weight' of 'new.csv' are far from those of the clients; are they in another "
        "unit?\n"
    )
    assert fedkin("predict", "run", "new.csv", "-q") == 0
    assert capsys.readouterr() == (shown.out, "")
