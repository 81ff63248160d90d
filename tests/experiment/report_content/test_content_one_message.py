"""What a page shows of runs that cluster clients by one message: how, in which phase, and who changed."""

import pytest
import torch

from fedkin.core import Client
from fedkin.data.population import Drift, Population
from fedkin.experiment.config import Config, load_config
from fedkin.experiment.report_content import view_of
from fedkin.report import RunView
from pages import clustered, record, scaling


@pytest.fixture
def config(toy: None) -> Config:
    return load_config("toy", ["scenario.name=toy"])


def embedded(step: int, **changes: object) -> dict:
    """The record of an embedding step: 2 clusters of 2 clients, by 200 bits each."""
    found = {
        "mode": "gap", "separable": True, "cut": 5.0, "heights": [9.0, 2.0, 1.0],
        "bits": 200, "flip": 0.1, "epsilon_bit": 2.1972, "epsilon": 439.44,
    }  # fmt: skip
    values = {"labels": [0, 0, 1, 1], "clusters": 2, "phase": "embedding", "clustering": found | changes}
    return record(step, values=values) | {"answered": [0, 1, 2, 3]}


def test_how_clusters_were_found_is_reported_and_drawn(config: Config) -> None:
    shown = clustered(config, embedded(1))
    assert shown.findings[0] == (
        "In step 1, 4 clients sent 200 bits each, every bit flipped with probability 0.1: 2 clusters."
    )
    assert shown.findings[1].startswith(
        "Privacy: no meaningful guarantee for a whole message (epsilon 439; 2.2 for one bit). It covers"
    )
    [bars] = shown.bars
    assert (bars.values, bars.strong, bars.line) == ([9.0, 2.0, 1.0], [True, False, False], 5.0)
    assert "separate fewer clients" not in bars.caption


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"epsilon_bit": 0.005, "epsilon": 1.0},
            "Privacy: epsilon 0.005 for one bit, 1 for a whole message. It covers this message alone",
        ),
        ({"flip": 0.0, "epsilon_bit": None, "epsilon": None}, "Bits were sent without noise"),
        ({"flip": [0.0, 0.1], "epsilon_bit": None, "epsilon": None}, "Bits of some clients were sent without noise"),
        ({"flip": [0.1, 0.2]}, "(epsilon 439, for the clients with the lowest probability; 2.2 for one bit)"),
    ],
)
def test_privacy_is_reported_for_what_it_is(config: Config, changes: dict, words: str) -> None:
    assert words in clustered(config, embedded(1, **changes)).findings[1]


def phase_record(step: int, phase: str, labels: list[int], **changes: object) -> dict:
    clusters = len({label for label in labels if label >= 0})
    return record(step, values={"labels": labels, "clusters": clusters, "phase": phase, "loss": None, **changes})


def test_steps_of_a_run_with_phases_are_told_apart(toy: None) -> None:
    config = load_config("toy", ["scenario.name=toy", "target.metric=personal_accuracy", "target.reach=0.5"])
    records = [
        phase_record(1, "pre-training", [-1] * 4, reconstruction=0.5),
        phase_record(2, "pre-training", [-1] * 4, reconstruction=0.25),
        embedded(3),
        phase_record(4, "training", [0, 0, 1, 1], loss=2.0),
        phase_record(5, "training", [0, 0, 1, 1], loss=1.0),
    ]
    for line, accuracy in zip(records[2:], (0.1, 0.4, 0.6), strict=True):
        line["metrics"]["personal_accuracy"] = accuracy
    shown = clustered(config, *records)
    assert shown.lead.startswith("2 clusters of clients were found. A client's model is right for 60 % of its own")
    assert shown.lead.endswith("It took 5 steps (2 of pre-training, 1 of embedding and 2 of training).")
    curves = {curve.title: list(curve.x) for curve in shown.curves}
    assert (curves["Training loss"], curves["Reconstruction error"]) == ([4, 5], [1, 2])
    assert (curves["Accuracy on each client's own test set"], curves["Traffic"]) == ([3, 4, 5], [1, 2, 3, 4, 5])
    assert {curve.x_label for curve in shown.curves} == {"step"}
    assert shown.timeline.bands == [("pre-training", 1, 2), ("embedding", 3, 3), ("training", 4, 5)]
    assert shown.timeline.caption == "Steps 1 to 2: pre-training; step 3: embedding; steps 4 to 5: training."
    assert shown.clients is not None
    assert shown.clients.caption.startswith("After step 5: 2 clusters")
    row = (
        "Reached accuracy on each client's own test set 0.5",
        "step 5",
        "2 rounds of training until then; after 30 B sent and received",
    )
    assert row in shown.summary
    assert ("Clusters found", "2", "over all clients together") in shown.summary
    records[4]["metrics"]["personal_accuracy"] = 0.45
    row = ("Reached accuracy on each client's own test set 0.5", "no", "not in 2 rounds of training")
    assert row in clustered(config, *records).summary


def changing(*records: dict, names: list[str] | None = None) -> RunView:
    """Of 4 clients, 1 and 2 drift at step 2, and 3 joins then."""
    clients = [Client(i, torch.zeros(5, 3)) for i in range(4)]
    drift = Drift(2, torch.tensor([1, 2]), lambda _, x, y: (x, y), torch.tensor([0, 1, 1, 0]))
    arrivals = torch.tensor([0, 0, 0, 2])
    population = Population(clients, None, [], names=names or [], drift=drift, arrivals=arrivals)
    return view_of(load_config("fedavg"), population, scaling("none", (3,)), records)


def test_what_happened_to_whom_is_reported_in_order() -> None:
    records = [
        phase_record(1, "training", [0, 0, 1, -1]),
        phase_record(2, "training", [0, 0, 1, 1], newcomers=[[3, 1]]),
        phase_record(3, "training", [2, 1, 2, 1], moved=[[2, 1, 2], [1, 0, 1], [0, 0, 2]], founded=[2]),
        phase_record(4, "training", [2, 0, 0, 1], moved=[[1, 1, 0], [2, 2, 0]]),
    ]
    shown = changing(*records)
    assert [tuple(change) for change in shown.changes] == [
        (2, "data changed", ["1", "2"], None, None),
        (2, "joined the federation", ["3"], None, None),
        (2, "got a first cluster", ["3"], None, 1),
        (3, "moved to another cluster", ["1"], 0, 1),
        (3, "founded a cluster", ["0"], 0, 2),
        (3, "founded a cluster", ["2"], 1, 2),
        (4, "moved to another cluster", ["1"], 1, 0),
        (4, "moved to another cluster", ["2"], 2, 0),
    ]
    assert [tuple(mark) for mark in shown.timeline.marks] == [
        (2, "2 clients: data changed", False),
        (2, "1 client: joined the federation", False),
        (3, "1 client: moved to another cluster", True),
        (3, "2 clients: founded a cluster", True),
        (4, "2 clients: moved to another cluster", True),
    ]
    assert shown.timeline.caption == (
        "Steps 1 to 4: training. Solid vertical line: clients whose data changed, in step 2. "
        "Solid vertical line: clients that joined the federation, in step 2. "
        "Dashed vertical line: clients that moved to another cluster, in steps 3 and 4. "
        "Dashed vertical line: clients that founded a cluster, in step 3."
    )
