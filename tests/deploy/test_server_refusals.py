"""What a server of sites refuses, and where it says why."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict
from four_sites import OPTIONS, config, grid

from fedkin.cli import main
from fedkin.core import FedkinError
from fedkin.core.files import folder_lock
from fedkin.deploy.server_app import serve
from fedkin.deploy.site_app import site_of
from fedkin.experiment.run_folder import LEDGER


@pytest.mark.parametrize(
    ("spoil", "more", "sentence"),
    [
        (lambda out: None, "engine.sites=none", r"^'engine\.sites' has no default on a real federation; give"),
        (lambda out: None, "engine.sites=1", r"^'engine\.sites' is 1, and a federation has at least two sites"),
        (lambda out: None, "engine.min_clients=9", r"^'engine\.min_clients' is 9, but there are only 4 sites"),
        (lambda out: None, "method.rounds=3", r"out holds another experiment; give another folder, as in flwr run"),
        (lambda out: (out / LEDGER).write_text("{}"), "seed=0", r"federation\.json is not as fedkin wrote it"),
        (lambda out: (out / LEDGER).write_text("[1"), "seed=0", r"federation\.json is not as fedkin wrote it"),
    ],
    ids=[
        "no number",
        "one site",
        "more clients than sites",
        "another experiment",
        "an empty ledger",
        "a broken ledger",
    ],
)
def test_what_cannot_go_on_is_refused(
    spoil: Callable[[Path], Any], more: str, sentence: str, data: Path, tmp_path: Path
) -> None:
    once = [*OPTIONS, "method.rounds=1"]
    serve(grid(data, tmp_path), config("fedavg", *once), tmp_path / "out")
    spoil(tmp_path / "out")
    with pytest.raises(FedkinError, match=sentence):
        serve(grid(data, tmp_path), config("fedavg", *once, more), tmp_path / "out")


def test_a_site_without_a_file_is_refused() -> None:
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    with pytest.raises(FedkinError, match=r"^The SuperNode was started without a site's file: --node-config 'site="):
        site_of(context)


def test_a_second_server_in_the_same_folder_is_refused(data: Path, tmp_path: Path) -> None:
    with folder_lock(tmp_path / "out"):
        with pytest.raises(FedkinError, match=r"Another process is at work in .*out; wait for it, or stop it first"):
            serve(grid(data, tmp_path), config("fedavg", *OPTIONS), tmp_path / "out")
        assert [file.name for file in (tmp_path / "out").iterdir()] == [".fedkin.lock"]


def test_a_mistake_in_a_run_that_never_began_is_mended_in_its_folder(data: Path, tmp_path: Path, capsys) -> None:
    asks = ["method.n_clusters=6", "engine.patience=0.1"]
    with pytest.raises(FedkinError, match="0 of 2 sites are there"):
        serve(
            grid(data, tmp_path),
            config("kfed", *asks, "federation.clients=['stie-0', 'b']", "engine.sites=2"),
            tmp_path / "out",
        )
    serve(grid(data, tmp_path), config("kfed", *asks), tmp_path / "out")
    said = capsys.readouterr().out
    assert f"fedkin: Found at most 6 clusters of samples\nfedkin: Done; results are in {tmp_path / 'out'}\n" in said
    with pytest.raises(FedkinError, match="holds another experiment"):
        serve(grid(data, tmp_path), config("kfed", *asks, "seed=1"), tmp_path / "out")
    for command, who in (("resume", "resumes it"), ("report", "its server writes the report")):
        with pytest.raises(SystemExit):
            main([command, str(tmp_path / "out")])
        assert who in capsys.readouterr().err
