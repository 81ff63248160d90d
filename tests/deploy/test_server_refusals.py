"""What a server of sites refuses, and where it says why."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict
from four_sites import FEDERATED, OPTIONS, config, grid

from fedkin.cli import main
from fedkin.core import FedkinError
from fedkin.core.files import folder_lock
from fedkin.deploy import server_app
from fedkin.deploy.server_app import refusals_in_the_log, serve
from fedkin.deploy.site_app import keep, read_site, site_of
from fedkin.experiment.config import load_config
from fedkin.experiment.run_folder import LEDGER
from nodes import Nodes, nodes_of


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


def test_a_run_that_an_earlier_fedkin_began_goes_on_although_options_are_new(data: Path, tmp_path: Path) -> None:
    chosen, out = config("fedavg", *OPTIONS, "method.rounds=1"), tmp_path / "out"
    serve(grid(data, tmp_path), chosen, out)
    text = (out / "config.toml").read_text()
    assert "\nindicator = false\n" in text
    (out / "config.toml").write_text(text.replace("indicator = false\n", ""))
    assert serve(grid(data, tmp_path), chosen, out).folder == out


def test_a_site_without_a_file_is_refused() -> None:
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    with pytest.raises(FedkinError, match=r"^The SuperNode was started without a site's file: --node-config 'site="):
        site_of(context)


def test_a_second_server_in_the_same_folder_is_refused(data: Path, tmp_path: Path) -> None:
    with folder_lock(tmp_path / "out"):
        with pytest.raises(FedkinError, match=r"Another process is at work in .*out; wait for it, or stop it first"):
            serve(grid(data, tmp_path), config("fedavg", *OPTIONS), tmp_path / "out")
        assert [file.name for file in (tmp_path / "out").iterdir()] == [".fedkin.lock"]


def shops(folder: Path, **files: str) -> Nodes:
    """Sites whose files are as given, by name, with tables of two columns, of which west lacks the second."""
    rows = [(row % 9 + row / 7, "CH" if row % 2 else "MM") for row in range(40)]
    made = []
    for name, more in files.items():
        head, bought = ("age,bought\n", True) if name != "west" else ("age\n", False)
        cells = [f"{age},{kind}" if bought else f"{age}" for age, kind in rows]
        (folder / f"{name}.csv").write_text(head + "\n".join(cells) + "\n")
        path = folder / f"{name}.toml"
        path.write_text(f'name = "{name}"\ndata = "{name}.csv"\nfolder = "{name}"\n{more}')
        made.append(read_site(path).site(path))
    return nodes_of(made, keep)


SHOPS = ["method.rounds=1", "engine.sites=3", "engine.patience=0.3", "data.label=bought"]


def test_a_column_of_labels_that_sites_do_not_know_is_no_feature(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asks = load_config("ocfl", [*FEDERATED[:-1], *SHOPS])
    with pytest.raises(FedkinError, match=r"0\.3 seconds 2 of 3 sites are there: east, west"):
        serve(shops(tmp_path, north="", east='label = "bought"', west=""), asks, tmp_path / "out")
    said = "Site 'north' has columns otherwise than the experiment says; its site.toml lacks label = \"bought\"."
    assert said in capsys.readouterr().out


def test_flower_notes_a_refusal_with_the_run_and_says_it_once(capsys, caplog, monkeypatch) -> None:
    monkeypatch.setattr(server_app, "_UPLOADED", 0.0)
    logger = logging.getLogger("flwr")
    before = list(logger.filters)
    try:
        with pytest.raises(FedkinError, match="no number") as refused, refusals_in_the_log():
            raise FedkinError("no number of sites")
        assert capsys.readouterr().err == "fedkin: no number of sites\n"
        logger.error("the app raised an exception", exc_info=refused.value)
        logger.error("Exit Code: 200")
        logger.error("something else", exc_info=OSError())
        assert [record.getMessage() for record in caplog.records] == ["something else"]
    finally:
        logger.filters[:] = before


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


def test_a_network_that_the_server_lacks_is_named_before_sites_are_waited_for(data: Path, tmp_path: Path) -> None:
    nodes = grid(data, tmp_path)
    with pytest.raises(FedkinError, match=r"^Model 'nowhere:make': module 'nowhere' cannot be imported"):
        serve(nodes, config("fedavg", "method.module=nowhere:make"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
