from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fedkin.core import Client
from fedkin.data.population import Population
from fedkin.data.scenarios.already_split import ClientFiles
from fedkin.data.scenarios.label_skew import LabelSkew
from fedkin.experiment.config import Config, load_config
from fedkin.experiment.report_content import view_of
from pages import client_record, clustered, record, scaling, view


def test_clients_with_names_are_called_by_their_files(config: Config) -> None:
    clients = [Client(i, torch.rand(2, 2), state={"clusters": torch.tensor([0, 1])}) for i in range(2)]
    table = view_of(config, Population(clients, None, [], [], ["a.csv", "b.csv"]), scaling("none", (2,)), []).table
    assert table is not None
    assert list(table.clients) == ["a", "b"]


def test_graphs_and_clusters_of_clients_have_the_clients_names(config: Config) -> None:
    clients = [Client(i, torch.rand(2, 2)) for i in range(2)]
    graph = {"nodes": [[0, 0, 5], [1, 0, 6]], "edges": [[0, 1]], "communities": [[0, 1]]}
    values = {"graph": graph, "labels": [0, 1], "newcomers": [[1, 0]]}
    line = {
        "step": 1,
        "answered": [0],
        "missing": {"1": "late"},
        "values": values,
        "metrics": {},
        "sent": 1,
        "received": 1,
    }
    population = Population(clients, None, [], [], ["north.csv", "south.csv"])
    shown = view_of(config, population, scaling("none", (2,)), [line])
    assert [node.client for node in shown.graphs[0].nodes] == ["north", "south"]
    assert shown.clients is not None
    assert list(shown.clients.clients) == ["north", "south"]
    assert [list(change.clients) for change in shown.changes] == [["south"]]
    assert "Step 1: client south was missing (late)." in [note.replace("Round", "Step") for note in shown.notes]


def test_notes_begin_with_how_the_data_were_prepared(config: Config) -> None:
    prepared = replace(scaling("none", (2,)), notes=["Column 'id' names the rows."])
    population = Population([Client(0, torch.rand(2, 2))], None, [])
    assert view_of(config, population, prepared, []).notes == ["Column 'id' names the rows."]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("tested", [True, False])
def test_the_true_clusters_are_named_where_they_are_known(known: bool, tested: bool, config: Config) -> None:
    clients = [Client(i, torch.rand(2, 2)) for i in range(2)]
    tests = [(torch.rand(1, 2), torch.zeros(1, dtype=torch.int64))] * 2 if tested else []
    hidden = torch.tensor([0, 1]) if known else None
    population = Population(clients, None, [], tests=tests, clusters=hidden)
    notes = view_of(config, population, scaling("none", (2,)), [client_record(1, [0, 1], [0.5, 0.5])]).notes
    said = {
        (True, True): ["Metrics use the true clusters and test samples, which no method sees."],
        (True, False): ["Metrics use the true clusters, which no method sees."],
        (False, True): ["Metrics use test samples, which no method sees."],
        (False, False): [],
    }
    assert notes == said[known, tested]


def test_a_scenario_knows_its_columns(tmp_path: Path) -> None:
    assert LabelSkew(data="wine").build(0).features[:2] == ["alcohol", "malic_acid"]
    assert LabelSkew(data="digits").build(0).features == []
    (tmp_path / "a.csv").write_text("age,label\n1,x\n")
    assert ClientFiles(str(tmp_path)).build().features == ["age"]
    assert ClientFiles([[[1.0]]]).build().features == []


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


def test_true_classes_are_reported_beside_what_was_found(config: Config) -> None:
    found = {"clusters": 3, "communities": 4}
    shown = view(
        config,
        torch.zeros(4, 3),
        scaling("none", (3,)),
        *[record(i, values=found, metrics={"target": 5}) for i in (1, 2)],
    )
    assert shown.summary[0][1] == "3"
    assert shown.summary[0][2].endswith("; true classes: 5")
    assert shown.curves[0].series == {"Communities": [4, 4], "True classes": [5, 5]}
    assert len(shown.curves) == 2


def test_a_run_without_steps_has_a_page(config: Config) -> None:
    shown = view(config, torch.zeros(4, 3), scaling("none", (3,)))
    assert (shown.curves, shown.summary, shown.notes, shown.graphs) == ([], [], [], [])


@pytest.mark.parametrize(("fired", "words"), [((False, True), "round 2"), ((False, False), "not yet")])
def test_the_trigger_is_a_headline(config: Config, fired: tuple[bool, bool], words: str) -> None:
    records = [client_record(step, [0, 0, 1, 1], fired=on) for step, on in enumerate(fired, start=1)]
    assert ("Clusters formed", words) in [row[:2] for row in clustered(config, *records).summary]


def test_missing_clients_are_given_by_reason(config: Config) -> None:
    missing = {str(i): "no reply" for i in range(15)} | {"20": "'x' is not finite"}
    assert clustered(config, record(3, missing=missing)).notes == [
        "Step 3: clients 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 3 more were missing (no reply).",
        "Step 3: client 20 was missing ('x' is not finite).",
    ]


@pytest.mark.parametrize(
    ("reach", "row"),
    [
        (0.5, ("Reached accuracy on each client's own test set 0.5", "round 2", "after 12 B sent and received")),
        (0.9, ("Reached accuracy on each client's own test set 0.9", "no", "not in 3 rounds")),
    ],
)
def test_a_target_is_reported(toy: None, reach: float, row: tuple[str, str, str]) -> None:
    settings = ["scenario.name=toy", "target.metric=personal_accuracy", f"target.reach={reach}"]
    records = [
        record(step, values={"labels": [0, 0, 1, 1]}, metrics={"personal_accuracy": 0.3 * step - 0.1})
        for step in (1, 2, 3)
    ]
    assert row in clustered(load_config("toy", settings), *records).summary


def test_without_a_target_none_is_reported(config: Config) -> None:
    shown = clustered(config, client_record(1, [0, 0, 1, 1]))
    assert not any(label.startswith("Reached") for label, *_ in shown.summary)


def test_numbers_that_are_not_reported_in_every_round_have_unbroken_curves(config: Config) -> None:
    tried = {2: 0.5, 4: 0.75}
    records = [
        record(
            step,
            values={"labels": [0, 0, 1, 1]},
            metrics={"personal_accuracy": tried[step]} if step in tried else {},
        )
        for step in range(1, 6)
    ]
    shown = clustered(config, *records)
    curve = next(curve for curve in shown.curves if curve.title == "Accuracy on each client's own test set")
    assert (curve.x, curve.series) == ([2, 4], {"Accuracy on each client's own test set": [0.5, 0.75]})
    label, value, text = shown.summary[0]
    assert (label, value) == ("Accuracy on each client's own test set", "0.750")
    assert text.endswith("; as of round 4; after round 2 0.500")
