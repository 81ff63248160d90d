"""What a server of sites refuses, and where it says why."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict
from four_sites import OPTIONS, config, grid

from fedkin.core import FedkinError
from fedkin.core.files import folder_lock
from fedkin.deploy.server_app import serve
from fedkin.deploy.site_app import site_of
from fedkin.experiment.run_folder import LEDGER


@pytest.mark.parametrize(
    ("spoil", "more", "sentence"),
    [
        (lambda out: None, "federation.sites=none", r"^'federation\.sites' has no default on a real federation; give"),
        (lambda out: None, "federation.sites=1", r"^'federation\.sites' is 1, and a federation has at least two sites"),
        (lambda out: None, "federation.min_clients=9", r"^'federation\.min_clients' is 9, but there are only 4 sites"),
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
