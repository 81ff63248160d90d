"""What the terminal says of clusters of clients."""

from pathlib import Path
from typing import Any

import pytest

from fedkin.core import State
from fedkin.experiment.client_remarks import members, notes_on_clusters
from fedkin.experiment.config import load_config
from fedkin.experiment.run_loop import RunOutcome
from fedkin.experiment.terminal import outcome_tree, print_outcome

APART = "Clients b ('0', ...) share no label with the other clients, which alone can make clusters of clients."
SHARED = (
    "The shared test set is that of all clients, but a model is made for those of its cluster; what counts are their "
    "own test sets."
)


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


@pytest.mark.parametrize(
    ("accuracy", "said"),
    [
        (0.46, ["An accuracy of 0.460 is worse than the 0.630 of always guessing each client's most frequent class."]),
        (
            0.64,
            ["An accuracy of 0.640 is no better than the 0.630 of always guessing each client's most frequent class."],
        ),
        (0.66, []),
    ],
)
def test_an_accuracy_that_a_guess_reaches_is_told(accuracy: float, said: list[str]) -> None:
    assert notes_on_clusters(line(0, 0, personal_accuracy=accuracy), 0.63, []) == said
    assert notes_on_clusters(line(0, 0, personal_accuracy=accuracy), None, [APART]) == []


def test_the_shared_test_set_and_labels_that_differ_are_explained_where_there_are_clusters() -> None:
    scores = {"personal_accuracy": 0.83, "global_accuracy": 0.49}
    assert notes_on_clusters(line(0, 1, **scores), 0.6, ["Column 'a' is odd.", APART]) == [SHARED, APART]
    assert notes_on_clusters(line(0, 0, **scores), 0.6, [APART]) == []
    assert notes_on_clusters(line(0, 1, personal_accuracy=0.8, global_accuracy=0.79), 0.6, []) == []


def test_fewer_clusters_than_were_asked_for_are_told() -> None:
    said = ["3 clusters were asked for, and 1 has clients; another seed may end in more."]
    assert notes_on_clusters(line(0, 0), None, [], 3) == said
    assert notes_on_clusters(line(0, 2), None, [], 3) == [said[0].replace("1 has", "2 have")]
    assert notes_on_clusters(line(0, 1), None, [], 2) == notes_on_clusters(line(0, 0), None, [], "auto") == []


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


@pytest.mark.parametrize(
    ("method", "labels", "n_clusters", "words"),
    [
        ("kin-graph", [], 1, "`fedkin cut runs/x --clusters 3`"),
        ("kin-graph --nodes 2", [], 1, "`fedkin cut runs/x --clusters 2`"),
        ("kin-graph --nodes 1", [], 1, "try other methods"),
        ("fedcref", [], 1, "in one cluster; try other methods"),
        ("fesem", [0, 0], None, "give another number of clusters"),
        ("fedavg", [0, 0], None, ""),
        ("kin-graph", [], 2, ""),
    ],
)
def test_a_single_cluster_names_the_next_step(
    method: str, labels: list[int], n_clusters: int | None, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, _, nodes = method.partition(" --nodes ")
    last = line(*labels)
    last["values"] |= {"nodes": int(nodes)} if nodes else {}
    print_outcome(RunOutcome(Path("runs/x"), State(), [last], load_config(name), n_clusters=n_clusters))
    said = capsys.readouterr().out
    assert words in said
    assert ("in one cluster" in said) == bool(words)
