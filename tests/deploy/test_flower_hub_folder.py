"""An app for Flower Hub: it follows the rules, and runs."""

import json
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict
from flwr.cli.build import build_fab_from_disk
from flwr.cli.config_utils import load_and_validate
from flwr.supercore.fab_format_version import normalize_and_validate_fab_format

from fedkin.cli import main
from fedkin.deploy import site_app
from fedkin.deploy.app_folder import init_hub
from nodes import Nodes

OPTIONS = ["method.n_clusters=10", "federation.patience=5.0"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    init_hub(tmp_path / "Kfed-digits", "kfed", OPTIONS, "some-one")
    return tmp_path / "Kfed-digits"


@pytest.fixture
def apps(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What Flower loads, by the names in the app's configuration."""
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(site_app.tempfile, "gettempdir", lambda: str(tmp_path))
    named = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["components"]
    parts = {name: target.split(":") for name, target in named.items()}
    yield {name: getattr(import_module(module), attribute) for name, (module, attribute) in parts.items()}
    for name in [name for name in sys.modules if name.startswith("kfed_digits")]:
        del sys.modules[name]


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # Flower's own
def test_flowers_own_checks_before_it_publishes_pass(folder, capsys):
    publish = import_module("flwr.cli.app_cmd.publish")
    config, warnings = load_and_validate(folder / "pyproject.toml", check_module=True)
    assert warnings == []
    publish._validate_app_name(folder.name, "directory")
    publish._validate_app_name(config["project"]["name"], "project")
    publish._validate_description(config["project"]["description"])
    assert len(config["project"]["description"]) < 200
    found = publish._collect_file_paths(folder)
    publish._validate_files(found)
    assert "Skip" not in capsys.readouterr().out
    assert len(found) == 8
    assert normalize_and_validate_fab_format(config).flwr_version_min == "1.28"
    assert len(build_fab_from_disk(folder)) < 100_000


def test_it_runs_on_partitions_of_built_in_data(folder, apps, tmp_path):
    where = Nodes(apps["clientapp"], 4)
    run = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    for context in where.contexts.values():
        context.run_config = run
    server = Context(1, 0, {}, RecordDict(), {**run, "out": str(tmp_path / "out")})
    apps["serverapp"](where, server)
    records = [json.loads(line) for line in (tmp_path / "out" / "records.jsonl").read_text().splitlines()]
    assert records[-1]["answered"] == [0, 1, 2, 3]
    assert json.loads((tmp_path / "out" / "result.json").read_text())["result"]["n_clusters"] == 10
    assert (tmp_path / "out" / "report.html").exists()
    labels = list(tmp_path.glob("fedkin-*/site-*/results/*/labels/*.csv"))
    assert sorted(path.stem for path in labels) == [f"site-{at:04}" for at in range(4)]


@pytest.mark.parametrize(
    ("name", "publisher", "experiment", "settings", "sentence"),
    [
        ("9app", "me", "kfed", OPTIONS, "The folder's name is '9app'; Flower Hub takes letters, digits and hyphens"),
        ("a" * 33, "me", "kfed", OPTIONS, "at most 32"),
        ("app", "me", "dec", [], "Method 'dec' has all samples sent to the server"),
    ],
)
def test_what_the_hub_does_not_take_is_refused(name, publisher, experiment, settings, sentence, tmp_path, capsys):
    words = ["federation", "init", str(tmp_path / name), experiment, "--hub", publisher]
    with pytest.raises(SystemExit) as ended:
        main([*words, *(word for setting in settings for word in ("--set", setting))])
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / name).exists()
