"""Commands on finished runs."""

import json
from pathlib import Path

import numpy as np
import pytest

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
    assert fedkin("predict", "run", "digits", "--client", "1", "--out", "new.csv") == 0
    assert (tmp_path / "new.csv").read_text() == printed
    rows = np.random.default_rng(0).random((5, 1, 8, 8), dtype=np.float32)
    np.savez(tmp_path / "new.npz", x=rows, y=np.array(["4", "5", "6", "5", "4"]))
    np.savez(tmp_path / "plain.npz", x=rows)
    np.savez(tmp_path / "odd.npz", x=rows, y=np.array(["z"] * 5))
    capsys.readouterr()
    assert fedkin("assign", "run", "new.npz") == 0
    assert capsys.readouterr() == ("1\n", "")
    for arguments, sentence in (
        ("predict run digits", "run has a model for each cluster of clients; give --client, "),
        ("predict run digits --client 3", "run has no client 3; "),
        ("assign run odd.npz", "'odd.npz' has the class 'z', which the run does not know."),
        ("assign run plain.npz", "'plain.npz' has no labels, by which a client finds its cluster; "),
        ("assign nowhere digits", "Invalid value for 'RUN': Directory 'nowhere' does not exist."),
    ):
        assert fedkin(*arguments.split()) == 2, arguments
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith(f"fedkin: {sentence}")
        assert shown.err.count("\n") == 1


def test_a_client_is_forgotten_into_a_folder_beside_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--set", "simulation.fraction=0.1", "--set", "evaluation.map=none", "--out", "run", "--quiet"]
    assert fedkin("run", "kfed", *small) == 0
    assert fedkin("forget", "run", "--client", "3") == 0
    printed = capsys.readouterr()
    assert "Report: run-without-3/report.html" in printed.out
    assert fedkin("forget", "run-without-3", "--client", "5", "--retrain", "--quiet", "-o", "neither") == 0
    assert capsys.readouterr() == ("", "")
    assert [each["way"] for each in json.loads(Path("neither/forgotten.json").read_text())] == ["exact", "retrained"]
    for arguments, sentence in (
        (["run"], "Missing option '--client'"),
        (["neither", "--client", "3"], "Client 3 took no part in neither, or is forgotten already"),
        (["run", "--client", "north"], "run has no client north; allowed: 0 to 9."),
        (["nowhere", "--client", "2"], "Invalid value for 'RUN'"),
    ):
        assert fedkin("forget", *arguments) == 2
        assert capsys.readouterr().err.startswith(f"fedkin: {sentence}")
    assert sorted(path.name for path in Path().iterdir()) == ["neither", "run", "run-without-3"]
