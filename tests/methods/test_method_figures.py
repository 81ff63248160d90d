"""Figures that methods show on a run's page, from their records."""

import pytest

from fedkin.methods.clients.one_shot import OneShotMethod
from fedkin.methods.samples.kingraph.kingraph_figures import kingraph_figures
from pages import record


def test_coarser_and_finer_clusters_are_a_table_where_there_are_any():
    scales = [
        {"samples": [5, 3], "parents": [], "stability": 0.9, "chosen": True},
        {"samples": [4, 3, 1], "parents": [0, 1, 0], "stability": 0.7, "chosen": False},
    ]
    values = {"nodes": 1200, "clusters": 2, "found_in": "graph", "scales": scales}
    graph = {"step": 2, "answered": [0, 1, 2], "values": values}
    text, table = kingraph_figures([{"values": {"phase": "components"}}, graph])
    assert text.sentences == ["In step 2, 1,200 micro-clusters from 3 clients gave 2 clusters."]
    assert [(name, [cell.text for cell in cells]) for name, cells in table.rows] == [
        ("2 (found)", ["0.900", "5, 3"]), ("3", ["0.700", "4, 3, 1"])
    ]  # fmt: skip
    values["scales"] = scales[:1]
    assert kingraph_figures([graph]) == [text]


def embedded(step: int, **changes: object) -> dict:
    """The record of an embedding step: 2 clusters of 2 clients, by 200 bits each."""
    found = {
        "mode": "exact", "bits": 200, "flip": 0.1, "epsilon": 439.44,
    }  # fmt: skip
    values = {"labels": [0, 0, 1, 1], "clusters": 2, "phase": "embedding", "clustering": found | changes}
    return record(step, values=values) | {"answered": [0, 1, 2, 3]}


def test_how_clusters_were_found_is_reported_and_drawn() -> None:
    (text,) = OneShotMethod.figures([embedded(1)])
    assert text.sentences[0] == (
        "In step 1, 4 clients sent 200 bits each, every bit flipped with probability 0.1: 2 clusters."
    )
    assert text.sentences[1].startswith("Privacy: no meaningful guarantee (epsilon 439 for a whole message)")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": 1.0}, "Privacy: epsilon 1 for a whole message. It covers"),
        ({"flip": 0.0, "epsilon": None}, "Messages were sent without noise"),
    ],
)
def test_privacy_is_reported_for_what_it_is(changes: dict, words: str) -> None:
    assert words in OneShotMethod.figures([embedded(1, **changes)])[0].sentences[1]
