"""Versions of Flower: refused, taken, and explained where an import fails."""

import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import torch

from fedkin.core import Client, FedkinError
from fedkin.engines import flower_engine as engine
from fedkin.engines.flower_engine import FlowerError, Node, check_flower, connected_nodes, importing_flower
from fedkin.engines.flower_engine.grid import Roster
from nodes import Nodes, nodes_of, plain_site, sites_of

ROOT = Path(__file__).parents[3]


def installed(monkeypatch: pytest.MonkeyPatch, found: str | None) -> None:
    def version(name: str) -> str:
        assert name == "flwr"
        if found is None:
            raise PackageNotFoundError(name)
        return found

    monkeypatch.setattr(engine, "version", version)


@pytest.mark.parametrize("found", ["1.28.0", "1.41.3", "1.43.0.dev20261101", "2.0.0"])
def test_versions_since_the_oldest_are_taken(monkeypatch, found):
    installed(monkeypatch, found)
    assert check_flower() == found


@pytest.mark.parametrize(("found", "words"), [(None, "not installed"), ("1.27.2", "fedkin needs 1.28.0 or newer")])
def test_versions_that_do_not_work_get_a_sentence(monkeypatch, found, words):
    installed(monkeypatch, found)
    with pytest.raises(FlowerError, match=words) as refused:
        check_flower()
    assert isinstance(refused.value, FedkinError)
    assert isinstance(refused.value, ImportError)


def test_an_import_that_flower_lacks_is_explained(monkeypatch):
    installed(monkeypatch, "1.99.0")
    with pytest.raises(FlowerError, match=r"cannot use Flower 1\.99\.0 .*flwr\.gone.*pip install 'flwr==1"):  # noqa: SIM117
        with importing_flower():
            import flwr.gone  # noqa: F401


def test_only_public_modules_of_flowers_are_used():
    """A private module may go with the next version."""
    texts = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    used = {module for text in texts for module in re.findall(r"^ *(?:from|import) (flwr[\w.]*)", text, re.MULTILINE)}
    allowed = {"flwr.app", "flwr.clientapp", "flwr.serverapp", "flwr.serverapp.strategy", "flwr.simulation"}
    assert used - allowed == {"flwr.serverapp.strategy.strategy_utils"}


class OldGrid(Nodes):
    """Nodes as Flower tells them before 1.38: by number alone."""

    get_nodes = property()  # raises AttributeError, so that there is none


def test_without_keys_of_nodes_a_federation_runs_and_a_listed_key_is_nobodys(tmp_path: Path) -> None:
    clients = [Client(i, torch.ones(4, 2)) for i in range(2)]
    grid = OldGrid(nodes_of(sites_of(clients, tmp_path)).app, 2)
    assert connected_nodes(grid) == {1000: Node(), 1007: Node()}
    roster = Roster(grid)
    assert [member.key for member in roster.gather(2, 5)] == ["", ""]
    with pytest.raises(FedkinError, match="0 of 1 sites are there"):
        Roster(grid, listed={"site-0": "ecdsa-sha2-nistp384 AAAA"}).gather(1, 0)


def test_before_1_38_a_site_that_was_away_is_asked_who_it_is_again(tmp_path: Path) -> None:
    nodes = OldGrid(nodes_of([plain_site(tmp_path, "a")]).app, 1)
    roster = Roster(nodes)
    assert [member.name for member in roster.greet()] == ["a"]
    assert roster.greet() == []
    nodes.away = {0}
    assert roster.greet() == []
    nodes.away = set()
    assert [member.name for member in roster.greet()] == ["a"]
