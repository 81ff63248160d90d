"""What a server of sites refuses, and where it says why."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from four_sites import OPTIONS, config, grid

from fedkin.core import FedkinError
from fedkin.core.files import folder_lock
from fedkin.deploy.server_app import serve
from fedkin.deploy.site_app import client_app
from fedkin.engines.flower_engine.grid import Roster
from fedkin.experiment.run_folder import LEDGER
from nodes import Nodes


@pytest.mark.parametrize(
    ("spoil", "more", "sentence"),
    [
        (lambda out: None, "federation={}", r"^'federation\.sites' has no default on a real federation; give"),
        (lambda out: None, "federation.sites=1", r"^'federation\.sites' is 1, and a federation has at least two sites"),
        (lambda out: None, "method.rounds=3", r"out holds another experiment; give another folder, as in flwr run"),
        (lambda out: (out / LEDGER).write_text("{}"), "seed=0", r"federation\.json is not as fedkin wrote it"),
        (lambda out: (out / LEDGER).write_text("[1"), "seed=0", r"federation\.json is not as fedkin wrote it"),
    ],
    ids=[
        "no number",
        "one site",
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


def test_a_site_without_a_file_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    nodes = Nodes(client_app(), 1)
    reported: list[str] = []
    assert Roster(nodes, report=reported.append).greet() == []
    assert "cannot be used; its own log says more" in reported[0]
    assert "The SuperNode was started without a site's file: --node-config 'site=" in caplog.text


def test_a_second_server_in_the_same_folder_is_refused(data: Path, tmp_path: Path) -> None:
    with folder_lock(tmp_path / "out"):
        with ThreadPoolExecutor() as threads:  # this one may lock the folder again
            second = threads.submit(serve, grid(data, tmp_path), config("fedavg", *OPTIONS), tmp_path / "out")
        with pytest.raises(FedkinError, match=r"Another process is at work in .*out; wait for it, or stop it first"):
            second.result()
        assert [file.name for file in (tmp_path / "out").iterdir()] == [".fedkin.lock"]
