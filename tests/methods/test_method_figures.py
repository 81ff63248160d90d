"""What methods show and say on a run's page, from their records."""

import math

import pytest

from fedkin.methods.clients.embedding import privacy_note
from fedkin.methods.samples.kingraph.kingraph import KinGraphMethod


def test_coarser_and_finer_clusters_are_a_table_where_there_are_any():
    scales = [
        {"samples": [5, 3], "parents": [], "stability": 0.9, "chosen": True},
        {"samples": [4, 3, 1], "parents": [0, 1, 0], "stability": 0.7, "chosen": False},
    ]
    values = {"nodes": 1200, "clusters": 2, "found_in": "graph", "scales": scales}
    graph = {"step": 2, "answered": [0, 1, 2], "values": values}
    text, table = KinGraphMethod.figures([{"values": {"phase": "components"}}, graph])
    assert text.sentences == ["In step 2, 1,200 micro-clusters from 3 clients gave 2 clusters."]
    assert [(name, [cell.text for cell in cells]) for name, cells in table.rows] == [
        ("2 (found)", ["0.900", "5, 3"]), ("3", ["0.700", "4, 3, 1"])
    ]  # fmt: skip
    values["scales"] = scales[:1]
    assert KinGraphMethod.figures([graph]) == [text]


BITS = {"bits": 200, "flip": 0.1, "epsilon": 439.44, "noise_source": "the run's seed"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "sent 200 bits, each flipped with probability 0.1. Privacy: no meaningful guarantee (epsilon 439 for a"),
        ({"epsilon": 1.0}, "Privacy: epsilon 1 for a whole message. It covers"),
        ({"flip": 0.0, "epsilon": math.inf}, "with no privacy guarantee"),
    ],
)
def test_privacy_of_one_message_is_noted_for_what_it_is(changes: dict, words: str) -> None:
    assert words in privacy_note(BITS | changes)
