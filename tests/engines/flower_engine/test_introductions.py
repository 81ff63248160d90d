"""How sites introduce themselves to the server, and which are refused."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch
from flwr.app import Context, Message

from fedkin.data.reading.asked_columns import check_asked
from fedkin.data.reading.table_options import NO_OPTIONS
from fedkin.data.reading.tables import frame_to_table
from fedkin.engines.flower_engine.roster import Roster
from fedkin.engines.flower_engine.transport import content
from nodes import nodes_of
from nodes import plain_site as site


@pytest.mark.parametrize("name", ["", "a\nfedkin: Done", "x" * 300, "\x1b[2J"])
def test_a_name_that_could_pass_for_the_logs_own_words_is_refused(name: str, tmp_path: Path) -> None:
    nodes = nodes_of([site(tmp_path / "1", name)])
    roster = Roster(nodes)
    assert roster.greet() == []
    assert roster.refused == [f"Node {nodes.node(0)} does not introduce itself as sites of fedkin do."]


def test_a_nodes_own_words_are_one_short_line_of_the_log(tmp_path: Path) -> None:
    nodes = nodes_of([site(tmp_path / "1", "a")])
    nodes.app = lambda message, context: Message(content(refusal="no\nfedkin: Done" + 999 * "!"), reply_to=message)  # type: ignore[assignment]
    roster = Roster(nodes)
    assert roster.greet() == []
    [sentence] = roster.refused
    assert sentence.startswith(f"Node {nodes.node(0)}: no fedkin: Done!!!")
    assert len(sentence) < 350


SOUND = {"name": "b", "identity": "token", "shape": [3], "features": ["x"], "classes": ["y"]}


@pytest.mark.parametrize(
    "change",
    [
        *({"name": name} for name in (None, ["b"], 3, torch.ones(1))),
        {"identity": None},
        *({"key": key} for key in (None, 3, ["k"])),
        *({"shape": shape} for shape in (5, [[5]], None, "3", [3.0], [True], torch.ones(1), {"3": 3})),
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


def test_a_site_that_does_not_know_what_the_experiment_says_of_columns_is_refused(tmp_path: Path) -> None:
    reports: list[str] = []
    ignorant = site(tmp_path / "a", "a", 2, ("x", "bought"))
    table = frame_to_table(pd.DataFrame({"x": [1, 2], "bought": ["a", "b"]}), "here")
    read = {"table": table, "options": NO_OPTIONS, "named": None, "taken": None}
    knowing = replace(ignorant, check_asked=partial(check_asked, site="a", **read))
    nodes = nodes_of([knowing, site(tmp_path / "b", "b", 1, ("x",))])
    roster = Roster(nodes, report=reports.append, columns={"label": "bought", "ordinal": {"pain": ["no", "some"]}})
    assert [member.name for member in roster.gather(1, 5)] == ["b"]
    assert reports[0] == (
        f"Refused: Node {nodes.node(0)}: Site 'a' has columns otherwise than the experiment says; its site.toml lacks "
        'label = "bought".'
    )
    assert len(Roster(nodes).gather(2, 5)) == 2
