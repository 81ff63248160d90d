import torch

from fedkin.experiment.config import Config
from pages import clustered, record, scaling, view


def test_numbers_become_curves_headlines_and_notes(config: Config) -> None:
    records = (
        record(
            1,
            values={"links": 3, "unmatched": 4, "local_clusters": 9},
            metrics={"false_matches": 0.5, "accuracy": 0.25},
        ),
        record(
            2,
            values={"links": 4, "unmatched": 0, "local_clusters": 8, "cut": None},
            metrics={"false_matches": 0.125, "accuracy": None},
            missing={"1": "no reply"},
        ),
    )
    shown = view(config, torch.zeros(4, 3), scaling("none", (3,)), *records)
    assert [(curve.title, curve.unit, curve.series) for curve in shown.curves] == [
        ("Unmatched local clusters", "count", {"Unmatched local clusters": [4, 0]}),
        ("Local accuracy", "share", {"Local accuracy": [0.25, None]}),
        ("False matches", "percent", {"False matches": [50.0, 12.5]}),
        ("Links", "count", {"Links": [3, 4]}),
        ("Traffic", "bytes", {"sent": [5, 5], "received": [1, 1]}),
    ]
    assert [row[:2] for row in shown.summary] == [
        ("Unmatched local clusters", "0 of 8"),
        ("False matches", "12.5 %"),
        ("Links", "4"),
        ("Traffic", "12 B"),
    ]
    assert [row[2].partition("; ")[2] for row in shown.summary] == [
        "after the first step 4 of 9",
        "after the first step 50.0 %",
        "after the first step 3",
        "",
    ]
    assert shown.notes[-1] == "Step 2: client 1 was missing (no reply)."
    assert (
        shown.lead == "2 clusters of samples were found; each has samples of both clients.\n"
        "3 clients hold 10 samples; these never left them. It took 2 steps."
    )
    assert shown.title == "Toy on digits"


def test_missing_clients_are_given_by_reason(config: Config) -> None:
    missing = {str(i): "no reply" for i in range(15)} | {"20": "'x' is not finite"}
    assert clustered(config, record(3, missing=missing)).notes == [
        "Step 3: clients 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 3 more were missing (no reply).",
        "Step 3: client 20 was missing ('x' is not finite).",
    ]
