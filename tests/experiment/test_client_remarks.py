"""What the terminal says of clusters of clients."""

from pathlib import Path
from typing import Any

import pytest

from fedkin.core import State
from fedkin.experiment.client_remarks import members
from fedkin.experiment.config import load_config
from fedkin.experiment.run_loop import RunOutcome
from fedkin.experiment.terminal import outcome_tree, print_outcome

APART = "Clients b ('0', ...) share no label with the other clients, which alone can make clusters of clients."


def line(*labels: int, **metrics: float) -> dict[str, Any]:
    values = {"clusters": len(set(labels)), "labels": list(labels)}
    return {"step": 1, "answered": [0], "missing": {}, "values": values, "metrics": metrics, "sent": 1, "received": 1}


def test_who_is_in_which_cluster_is_a_line_for_each() -> None:
    assert members([0, 1, 0, -1], ["a.csv", "b.csv", "c.csv", "d.csv"]) == [
        "Cluster 0 has 2 clients: a, c",
        "Cluster 1 has 1 client: b",
    ]
    assert members([0, 0], ["a", "b"]) == []
    many = members([at // 12 for at in range(120)], [])
    assert many[0] == "Cluster 0 has 12 clients: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
    assert (len(many), many[-1]) == (7, "... and 4 more clusters, in clients.csv")


def test_the_outcome_names_the_clients_and_their_file(capsys: pytest.CaptureFixture[str]) -> None:
    last = line(0, 1, personal_accuracy=0.5, global_accuracy=0.5)
    outcome = RunOutcome(Path("runs/x"), State(), [last], load_config("ocfl"), ["north.csv", "south.csv"], [APART], 0.5)
    print_outcome(outcome)
    assert capsys.readouterr().out.splitlines()[-6:] == [
        "Cluster 0 has 1 client: north",
        "Cluster 1 has 1 client: south",
        "Note: An accuracy of 0.500 is no better than the 0.500 of always guessing each client's most frequent class.",
        f"Note: {APART}",
        "Clients: runs/x/clients.csv",
        "Report: runs/x/report.html",
    ]
    tree = outcome_tree(outcome)
    assert (tree["n_clusters"], tree["sizes"], tree["clients"]) == (2, [1, 1], {"north": 0, "south": 1})
    assert tree["sentences"] == ["Cluster 0 has 1 client: north", "Cluster 1 has 1 client: south"]
    assert tree["notes"][0] == APART
