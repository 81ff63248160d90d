"""Tests of sentences on several clients."""

from __future__ import annotations

from fedkin.data.reading.alike_clients import said_once, several_clients


def test_clients_are_one_subject() -> None:
    assert several_clients(["Client 3"]) == "Client 3"
    assert several_clients(["Client 0", "Client 1"], within=True) == "clients 0 and 1"
    assert several_clients([f"Client {i}" for i in range(8)]) == "Clients 0 to 7"
    assert several_clients(["Client 0", "Client 2", "Client 3"]) == "Clients 0, 2 and 3"
    assert several_clients(["Client 'bern'", "Client 'ulm'"]) == "Clients 'bern' and 'ulm'"
    assert several_clients([f"Client {2 * i}" for i in range(10)]) == "Clients 0, 2, 4, 6, 8, 10, 12, 14 and 2 more"
    assert several_clients(["'a.npz'", "'b.npz'"]) == "'a.npz', 'b.npz'"


def test_the_same_is_said_once() -> None:
    problems = ["Client 0 has none.", "Client 2 is odd.", "Client 1 has none.", "All is lost.", "Client 2 has none."]
    assert said_once(problems) == ["Clients 0 to 2 have none.", "Client 2 is odd.", "All is lost."]
