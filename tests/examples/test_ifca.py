"""The baseline of IFCA: its form, and that it tells rotations apart."""

import json
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict
from flwr.supercore.fab_format_version import normalize_and_validate_fab_format

import app_nodes

FOLDER = Path(__file__).parents[2] / "examples" / "ifca"
PROJECT = tomllib.loads((FOLDER / "pyproject.toml").read_text())


def test_nodes_of_one_rotation_share_a_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    client, server = (import_module(f"ifca.{part}_app").app for part in ("client", "server"))
    run = {**PROJECT["tool"]["flwr"]["app"]["config"], "num-server-rounds": 4}
    where = app_nodes.Fleet(client, 8)
    for context in where.contexts.values():
        context.run_config = run
    server(where, Context(1, 0, {}, RecordDict(), run))
    clusters = [json.loads(line.partition("nodes ")[2]) for line in capsys.readouterr().out.splitlines()[1:]]
    of = {node: at for at, nodes in enumerate(clusters) for node in nodes}
    assert all(of[node] == of[node + 4] for node in range(4))
    assert len(set(of.values())) >= 3  # which of the four depends on the first models


def test_it_has_the_form_of_a_baseline() -> None:
    assert normalize_and_validate_fab_format(PROJECT).flwr_version_min == "1.28"
    parts = {path.name for path in (FOLDER / "ifca").glob("*.py")}
    assert parts == {
        "__init__.py", "client_app.py", "dataset.py", "model.py", "server_app.py", "strategy.py",
    }  # fmt: skip
    text = (FOLDER / "README.md").read_text()
    assert text.startswith("---\ntitle: ")
    for heading in ("About this baseline", "Experimental setup", "Environment setup", "Running the experiments"):
        assert f"\n## {heading}\n" in text
