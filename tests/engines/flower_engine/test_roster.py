"""How sites introduce themselves to the server, and which are refused."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key
from flwr.app import Context, Message

from fedkin.core import FedkinError
from fedkin.deploy.app_folder import make_key
from fedkin.engines.flower_engine.grid import NOWHERE, Roster
from fedkin.engines.flower_engine.messages import content, read
from fedkin.engines.site import Site
from nodes import Nodes, nodes_of
from nodes import plain_site as site


def grid(folder: Path, *sites: Site) -> Nodes:
    return nodes_of(sites)


def test_a_second_site_of_a_name_is_refused_and_the_first_unharmed(tmp_path: Path) -> None:
    reports: list[str] = []
    nodes = grid(tmp_path, site(tmp_path / "1", "a"), site(tmp_path / "2", "b"), site(tmp_path / "3", "a"))
    nodes.away = {2}
    roster = Roster(nodes, report=reports.append)
    assert len(roster.gather(2, 5)) == 2
    nodes.away = set()
    assert roster.greet() == []
    assert roster.greet() == []
    assert reports[-1] == "Refused: Another site is called 'a' already; every site needs a name of its own."
    assert roster.members["a"].node == nodes.node(0)


def test_once_it_has_begun_only_those_come_back_who_were_there(tmp_path: Path) -> None:
    reports: list[str] = []
    nodes = grid(tmp_path, site(tmp_path / "1", "a"), site(tmp_path / "2", "b"), site(tmp_path / "3", "c"))
    nodes.away = {2}
    members = Roster(nodes).gather(2, 5)
    nodes.away = set()
    again = Roster(nodes, {member.name: member.identity for member in members}, reports.append)
    assert [member.name for member in again.gather(2, 5)] == ["a", "b"]
    assert "Refused: The run began without site 'c', so it cannot take part now." in reports
    nodes.restart(0)
    assert [member.name for member in again.greet()] == ["a"]


def test_nobody_waits_for_who_is_forgotten_and_nobody_takes_its_seat(tmp_path: Path) -> None:
    nodes = grid(tmp_path, *(site(tmp_path / name, name) for name in "abc"), site(tmp_path / "other", "b"))
    nodes.away = {3}
    members = Roster(nodes).gather(3, 5)
    known, reports = {member.name: member.identity for member in members}, list[str]()
    nodes.away = {1}
    began = time.monotonic()
    again = Roster(nodes, known, reports.append, forgotten=["b"])
    assert [(one.name, one.node != NOWHERE) for one in again.gather(3, 60)] == [("a", True), ("b", False), ("c", True)]
    assert time.monotonic() - began < 30
    assert "Refused: Another site is called 'b' already; every site needs a name of its own." in reports
    assert reports[-1] == "2 of 2 sites are there: a, c"


def liar(nodes: Nodes, partition: int) -> dict:
    """Have a node introduce itself with what the returned dictionary holds instead of its site's words."""
    answer, lies = nodes.app, {}

    def lying(message: Message, context: Context) -> Message:
        reply = answer(message, context)
        if context.node_config["partition-id"] != partition:
            return reply
        return Message(content({**read(reply.content).tree(), **lies}), reply_to=message)

    nodes.app = lying  # type: ignore[assignment]
    return lies


def test_a_node_has_one_seat_and_the_others_go_on(tmp_path: Path) -> None:
    reports: list[str] = []
    nodes = grid(tmp_path, site(tmp_path / "1", "a"), site(tmp_path / "2", "b"), site(tmp_path / "3", "c"))
    lies = liar(nodes, 2)
    roster = Roster(nodes, report=reports.append)
    nodes.away = {1}
    roster.greet()
    for name in ("d", "e", "e"):
        lies |= {"name": name, "identity": f"of {name}"}
        nodes.restart(2)
        assert roster.greet() == []
    nodes.away = set()
    assert [member.name for member in roster.gather(3, 5)] == ["a", "b", "c"]
    refused = [f"Node {nodes.node(2)} is site 'c' and cannot be '{name}' too; a node has one name." for name in "de"]
    assert roster.refused == refused
    assert [text for text in reports if "one name" in text] == [f"Refused: {refused[at]}" for at in (0, 1, 1)]
    nodes.restart(2)
    assert roster.greet() == []
    assert sorted(roster.members) == ["a", "b", "c"]


def with_keys(folder: Path, *names: str) -> tuple[Nodes, list[bytes]]:
    """Sites that have keys, which Flower has authenticated their nodes with; and those keys."""
    sites, keys = [], []
    for name in names:
        make_key(folder / name / "site.key")
        sites.append(replace(site(folder / name, name), key=folder / name / "site.key"))
        public = load_ssh_public_key((folder / name / "site.key.pub").read_bytes())
        keys.append(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    nodes = grid(folder, *sites)
    nodes.keys = dict(enumerate(keys))
    return nodes, keys


def test_a_name_stays_with_the_key_that_came_with_it_first(tmp_path: Path) -> None:
    nodes, _ = with_keys(tmp_path, "a", "b", "z")
    lies = liar(nodes, 2)
    nodes.away = {2}
    roster = Roster(nodes)
    members = roster.gather(2, 5)
    assert [member.key for member in members] == [
        (tmp_path / name / "site.key.pub").read_text().strip() for name in "ab"
    ]
    nodes.away = set()
    lies |= {"name": "a", "identity": members[0].identity}  # it has even stolen the token
    stolen = "A node with another key says that it is site 'a'; the name stays with the key that it had first."
    for lie in ({}, {"key": members[0].key}, {"key": ""}):
        lies |= lie
        nodes.restart(2)
        assert roster.greet() == []
    assert roster.refused == [stolen]
    assert roster.members["a"].node == nodes.node(0)
    known = {member.name: member.identity for member in members}
    again = Roster(nodes, known, keys={member.name: member.key for member in members})
    nodes.away = {0}
    assert [member.name for member in again.gather(1, 5)] == ["a", "b"]
    assert again.refused == [stolen]
    assert again.members["a"].node == NOWHERE
    nodes.away = set()
    assert [member.name for member in again.greet()] == ["a"]
    assert again.members["a"].node == nodes.node(0)


def test_a_key_has_one_name_also_in_a_run_that_resumes(tmp_path: Path) -> None:
    nodes, _ = with_keys(tmp_path, "a", "b", "c")
    members = Roster(nodes).gather(3, 5)
    lies = liar(nodes, 1)
    lies |= {"name": "c", "identity": members[2].identity}
    nodes.away = {0, 2}
    again = Roster(nodes, {one.name: one.identity for one in members}, keys={one.name: one.key for one in members})
    assert again.greet() == []
    assert again.refused == ["Site 'c' has the key of site 'b'; a key has one name in a run."]


def test_a_key_that_changes_with_every_start_binds_nobody(tmp_path: Path) -> None:
    nodes, keys = with_keys(tmp_path, "a", "b")
    nodes.keys = {0: keys[1], 1: b"no key"}  # as without authentication, where nodes make keys of their own
    roster = Roster(nodes)
    assert [member.key for member in roster.gather(2, 5)] == ["", ""]
    nodes.restart(0)
    nodes.keys = {}
    assert [member.name for member in roster.greet()] == ["a"]


def test_who_is_forgotten_and_there_stands_for_nobody_else(tmp_path: Path) -> None:
    nodes, listed = grid(tmp_path, *(site(tmp_path / name, name) for name in "abc")), dict.fromkeys("abc", "")
    nodes.away = {2}
    with pytest.raises(FedkinError, match=r"1 of 2 sites are there: a; not there yet: c\."):
        Roster(nodes, listed=listed, forgotten={"b"}).gather(3, 0.3)
    nodes.away = {1}
    assert [one.name for one in Roster(nodes, listed=listed, forgotten={"b"}).gather(3, 5)] == ["a", "c"]


def test_only_those_who_are_listed_have_seats(tmp_path: Path) -> None:
    reports: list[str] = []
    nodes = grid(tmp_path, *(site(tmp_path / name, name) for name in "abc"))
    roster = Roster(nodes, report=reports.append, listed={"a": "", "c": "", "d": ""})
    assert [member.name for member in roster.gather(2, 5)] == ["a", "c"]
    assert roster.refused == ["Site 'b' is not among the clients that this run's [federation] lists."]
    assert "2 of 2 sites are there: a, c; not there yet: d" in reports


def test_a_listed_key_decides_whose_the_name_is(tmp_path: Path) -> None:
    nodes, _ = with_keys(tmp_path, "a", "b", "z")
    lies = liar(nodes, 2)
    public = {name: (tmp_path / name / "site.key.pub").read_text().strip() for name in "ab"}
    lies |= {"name": "a", "key": public["a"]}
    nodes.away = {0}
    roster = Roster(nodes, listed=public)
    assert [member.name for member in roster.greet()] == ["b"]  # the first that says it is a
    assert roster.refused == ["Site 'a' has another key than 'federation.keys' lists for it."]
    nodes.away = set()
    assert [member.name for member in roster.gather(2, 5)] == ["a", "b"]
    assert roster.members["a"].node == nodes.node(0)
    nodes.keys = {}
    assert Roster(nodes, listed=public).greet() == []


def test_a_nodes_own_words_are_one_short_line_of_the_log(tmp_path: Path) -> None:
    nodes = nodes_of([site(tmp_path / "1", "a")])
    nodes.app = lambda message, context: Message(content(refusal="no\nfedkin: Done" + 999 * "!"), reply_to=message)  # type: ignore[assignment]
    roster = Roster(nodes)
    assert roster.greet() == []
    [sentence] = roster.refused
    assert sentence.startswith(f"Node {nodes.node(0)}: no fedkin: Done!!!")
    assert len(sentence) < 350


SOUND = {"name": "b", "identity": "token", "features": ["x"], "classes": ["y"]}


@pytest.mark.parametrize(
    "change",
    [
        *({"name": name} for name in (None, ["b"], 3, torch.ones(1))),
        *(
            {"name": name} for name in ("", "a\nfedkin: Done", "x" * 300, "\x1b[2J")
        ),  # which could pass for the log's words
        *({key: "a\ud800"} for key in ("name", "identity", "key")),  # half a character, which cannot be written
        *({key: ["a\ud800"]} for key in ("features", "classes")),
        {"identity": None},
        *({"key": key} for key in (None, 3, ["k"])),
        *({key: value} for key in ("features", "classes") for value in (7, [7], None, "xy", [["x"]])),
        {"node": {}, "more": 1},
    ],
)
def test_an_introduction_of_other_types_is_refused_and_the_others_unharmed(change: dict, tmp_path: Path) -> None:
    reports: list[str] = []
    nodes = nodes_of([site(tmp_path / "1", "a"), site(tmp_path / "2", "b")])
    answer = nodes.app

    def odd(message: Message, context: Context) -> Message:
        if context.node_config["partition-id"] == 1:
            return Message(content({**SOUND, **change}), reply_to=message)
        return answer(message, context)

    nodes.app = odd  # type: ignore[assignment]
    assert [member.name for member in Roster(nodes, report=reports.append).gather(1, 5)] == ["a"]
    assert f"Refused: Node {nodes.node(1)} does not introduce itself as sites of fedkin do." in reports
    assert all(text.isprintable() for text in reports)


def test_two_names_cannot_share_a_folder(tmp_path: Path) -> None:
    nodes = grid(tmp_path, site(tmp_path / "1", "a"), site(tmp_path / "1", "b"), site(tmp_path / "3", "c"))
    nodes.away = {1}
    roster = Roster(nodes)
    assert len(roster.gather(2, 5)) == 2
    nodes.away = set()
    roster.known = {}
    assert roster.greet() == []
    assert roster.refused == ["Site 'b' has the private folder of site 'a'; every site needs one of its own."]
    resumed = Roster(nodes, {"a": roster.members["a"].identity, "b": "token"})
    assert [member.name for member in resumed.greet()] == ["a"]
