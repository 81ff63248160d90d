"""Rounds that close before everybody has replied, and replies that come late."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Message

from fedkin.core import Client, task
from fedkin.engines.flower_engine.grid import FlowerFederation
from fedkin.engines.flower_engine.roster import Roster
from nodes import RUN, Nodes, nodes_of, sites_of


@task
def echo(clients, payloads):
    return [{"number": payload["number"]} for payload in payloads]


@task
def other(clients, payloads):
    return [{"other": payload["number"]} for payload in payloads]


class Pace:
    """A federation of four sites, of which some are `slow`: their replies are held back."""

    def __init__(self, folder: Path, timeout: float = 0.4, **options: Any) -> None:
        clients = [Client(i, torch.rand(3, 2)) for i in range(4)]
        self.grid: Nodes = nodes_of(sites_of(clients, folder))
        self.slow: set[int] = set()
        pull = self.grid.pull_messages

        def held(ids: Iterable[str]) -> Iterable[Message]:
            slow = {m.metadata.message_id for m in self.grid.sent if self._partition(m) in self.slow}
            return pull([number for number in ids if number not in slow])

        self.grid.pull_messages = held  # type: ignore[method-assign]
        roster = Roster(self.grid)
        roster.gather(4, 5)
        self.fed = FlowerFederation(roster, RUN, timeout=timeout, **options)

    def _partition(self, message: Message) -> int:
        return self.grid.partition(message.metadata.dst_node_id)

    def ask(self, number: int, what: Any = echo, slow: Iterable[int] = ()) -> dict[int, Any]:
        self.slow = set(slow)
        return self.fed.ask(what, self.fed.all(number=number))

    def asked(self, before: int) -> list[int]:
        """Sites that were sent messages since there were so many."""
        return [self._partition(message) for message in self.grid.sent[before:]]


def numbers(replies: dict[int, Any]) -> dict[int, int]:
    return {client: reply["number"] for client, reply in replies.items()}


def test_a_round_closes_when_enough_have_replied(tmp_path):
    pace = Pace(tmp_path, timeout=60, quorum=0.75)
    assert numbers(pace.ask(1, slow=[2])) == {0: 1, 1: 1, 3: 1}
    assert pace.fed.missing == {2: "late: 3 of 4 had replied"}


def test_or_when_its_time_is_over(tmp_path):
    pace = Pace(tmp_path, quorum=0.75)
    assert numbers(pace.ask(1, slow=[1, 2])) == {0: 1, 3: 1}
    assert pace.fed.missing == dict.fromkeys((1, 2), "no reply in 0.4 seconds")


def test_a_late_reply_is_refused_and_the_site_asked_anew(tmp_path):
    pace = Pace(tmp_path, timeout=60, quorum=0.75)
    pace.ask(1, slow=[2])
    before = len(pace.grid.sent)
    pace.fed.quorum = 1.0
    assert numbers(pace.ask(2)) == dict.fromkeys(range(4), 2)
    assert pace.asked(before) == [0, 1, 2, 3]


def test_or_counts_in_the_next_round_for_which_the_site_is_not_asked(tmp_path):
    pace = Pace(tmp_path, timeout=60, quorum=0.75, counts_late=True)
    pace.ask(1, slow=[2])
    before = len(pace.grid.sent)
    pace.fed.quorum = 1.0
    assert numbers(pace.ask(2)) == {0: 2, 1: 2, 2: 1, 3: 2}
    assert pace.asked(before) == [0, 1, 3]
    assert numbers(pace.ask(3)) == dict.fromkeys(range(4), 3)


def test_a_reply_to_another_task_does_not_count(tmp_path):
    pace = Pace(tmp_path, timeout=60, quorum=0.75, counts_late=True)
    pace.ask(1, slow=[2])
    pace.fed.quorum = 1.0
    assert {i: reply["other"] for i, reply in pace.ask(2, other).items()} == dict.fromkeys(range(4), 2)


@pytest.mark.parametrize("counts_late", [False, True])
def test_without_a_quorum_all_are_waited_for(counts_late, tmp_path):
    pace = Pace(tmp_path, counts_late=counts_late)
    pace.ask(1, slow=[2])
    assert pace.fed.missing == {2: "no reply in 0.4 seconds"}
