"""What a run's page shows, from records and clients."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedkin.core import Client
from fedkin.core.client import Column
from fedkin.core.method import Nodes
from fedkin.data.population import Drift, Population
from fedkin.data.profile import ClusterProfile
from fedkin.experiment import registry
from fedkin.experiment.config import Config, load_config
from fedkin.report.figures import PagePart
from fedkin.report.run_page import data_sentence, marks_of, page_of_client, page_of_run
from fedkin.report.sample_map import MapLayout
from pages import client_record, clustered, part, record, scaling, view


@pytest.fixture
def config(toy: None) -> Config:
    return load_config("toy", ["simulation.scenario=toy"])


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
    assert [(curve.title, curve.unit, curve.series) for curve in part(shown, "curves").figures] == [
        ("Local accuracy", "share", {"Local accuracy": [0.25, None]}),
        ("False matches", "percent", {"False matches": [50.0, 12.5]}),
        ("Links", "count", {"Links": [3, 4]}),
        ("Unmatched", "count", {"Unmatched": [4, 0]}),
        ("Local clusters", "count", {"Local clusters": [9, 8]}),
        ("Traffic", "bytes", {"sent": [5, 5], "received": [1, 1]}),
    ]
    assert [row[:2] for row in shown.summary] == [
        ("False matches", "12.5 %"),
        ("Traffic", "12 B"),
    ]
    assert part(shown, "notes").notes[-1] == "Step 2: client 1 was missing (no reply)."
    assert (
        shown.lead == "2 clusters of samples were found; each has samples of both clients.\n"
        "3 clients hold 10 samples; these never left them. It took 2 steps."
    )
    assert shown.title == "Toy on digits"


def test_clusters_of_clients_are_shown_by_round(config: Config) -> None:
    shown = clustered(
        config,
        client_record(1, [-1, 0, 0, 0], [None, 0.1, 0.2, 0.3]),
        client_record(2, [-1, 1, 0, 1], [None, 0.5, 0.6, 0.7]),
        clusters=[0, 27, 1, 2],
    )
    (members,) = part(shown, "clients").figures
    assert [(name, [cell.text for cell in cells]) for name, cells in members.rows] == [
        (0, ["1", "1 B", "0.600", "2"]), (1, ["2", "1 BB, 1 C", "0.600", "1, 3"]), (-1, ["1", "1 A", "–", "0"])
    ]  # fmt: skip
    assert members.caption.startswith("After round 2: 2 clusters, 1 client in none yet.")
    moved = next(curve for curve in part(shown, "curves").figures if curve.title == "Clients that moved")
    assert moved.series == {"moved": [2]}
    assert shown.lead == (
        "2 clusters of clients were found. They match the true clusters exactly (ARI 1.00).\n"
        "4 clients hold 20 samples; these never left them. It took 2 rounds."
    )
    assert "which no method sees" in part(shown, "notes").notes[0]
    assert {curve.x_label for curve in part(shown, "curves").figures} == {"round"}


CLUSTERS = ([0] * 10 + [1] * 10, [1] * 10)
TRUTH = ([3] * 10 + [4] * 10, [4] * 4 + [5] * 6)


def population(*truth: list[int], classes: tuple[str, ...] = ()) -> Population:
    clients = [
        Client(at, torch.zeros(len(found), 2), state={"clusters": torch.tensor(found)})
        for at, found in enumerate(CLUSTERS)
    ]
    return Population(clients, [torch.tensor(own) for own in truth] or None, list(classes))


def test_what_the_scenario_does_is_marked_up_to_the_last_record() -> None:
    drift = Drift(3, torch.tensor([0, 1]), lambda client, x, y: (x, y), torch.zeros(3))
    changed = replace(population(), drift=drift, arrivals=torch.tensor([0, 2, 9]))
    marks = [(mark.step, mark.meaning) for mark in marks_of([record(1), record(3)], changed)]
    assert marks == [(2, "1 client joined"), (3, "2 clients: data changed")]


def test_one_cluster_of_everything_is_no_finding_and_a_single_client_holds_its_samples() -> None:
    own = population(*TRUTH, classes=("a", "b", "c", "d", "e", "f"))
    for client in own.clients:
        client.state["clusters"] *= 0
    shown = page_of_run(load_config("kmeans"), own, scaling("none", (2,)), [record(1, metrics={"ari": 0.0})])
    assert shown.lead.startswith("No clusters were separated: all samples are in one.")
    alone = replace(own, clients=own.clients[:1])
    made = registry.resolve("method", "kfed")(n_clusters=2)
    assert data_sentence(made, alone).startswith("1 client holds 20 samples")


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("kfed", "these never left them."),
        ("kmeans", "these left them, for this method needs all data in one place."),
        ("sda-fc", "these never left them, but synthetic copies did."),
    ],
)
def test_the_page_says_what_left_the_clients(method: str, words: str) -> None:
    made = registry.resolve("method", method)(n_clusters=2)
    assert f"hold 30 samples; {words}" in data_sentence(made, population())


def client(index: int, clusters: list[int]) -> Client:
    return Client(index, torch.zeros(len(clusters), 2), state={"clusters": torch.tensor(clusters)})


def test_of_many_columns_those_that_stand_out_are_shown_in_order_with_their_names(config: Config) -> None:
    x = torch.zeros(4, 100)
    x[:, 90] = torch.tensor([9.0, 0.0, 0.0, 0.0])
    x[:, 30] = torch.tensor([0.0, 1.0, 1.0, 1.0])
    clients = [Client(0, x, state={"clusters": torch.tensor([0, 1, 1, 1])})]
    population = Population(clients, None, [], [f"c{at}" for at in range(100)])
    (table,) = part(page_of_run(config, population, scaling("none", (100,)), []), "profiles").figures
    names = [name for name, _ in table.rows]
    assert len(names) == 40
    assert [name for name in names if name in ("c30", "c90")] == ["c30", "c90"]
    assert "the 40 of 100 columns" in table.caption


@pytest.mark.parametrize(("channels", "shape"), [(1, (5, 4)), (2, (5, 4)), (3, (5, 4, 3))])
def test_images_show_mean_and_members_as_they_were(config: Config, channels: int, shape: tuple[int, ...]) -> None:
    scaled = scaling("standard", (channels, 5, 4), mean=0.25, scale=0.5)
    shown = view(config, torch.full((4, channels, 5, 4), 0.5), scaled)
    first, second = part(shown, "pictures").figures
    assert (first.cluster, first.size, first.clients, second.cluster, second.size, second.clients) == (0, 2, 2, 2, 4, 2)
    assert first.mean.shape == shape
    assert second.members.shape == (4, *shape)
    assert (first.mean == 0.5).all()
    assert not part(shown, "profiles").figures


def two_clusters(samples: int) -> Population:
    """One client's samples, in two clusters far apart, each of a class of its own."""
    clusters = torch.arange(samples) % 2
    noise = torch.randn(samples, 5, generator=torch.Generator().manual_seed(0))
    clients = [Client(0, noise + 20 * clusters[:, None], state={"clusters": clusters})]
    return Population(clients, [clusters + 1], ["a", "b", "c"])


def map_of(population: Population, layout: MapLayout) -> PagePart:
    settings = load_config("toy", ["simulation.scenario=toy", f"evaluation.map={layout}"])
    return part(page_of_run(settings, population, scaling("none", (2,)), [], {}), "map")


@pytest.mark.parametrize(("layout", "samples"), [("tsne", 60), ("pca", 60), ("tsne", 900), ("tsne", 5), ("pca", 1)])
def test_a_map_keeps_clusters_apart_and_is_the_same_again(toy: None, layout: MapLayout, samples: int) -> None:
    (drawn,), (again,) = (map_of(two_clusters(samples), layout).figures for _ in range(2))
    assert np.array_equal(drawn.places, again.places)
    assert f"{samples} sample" in drawn.caption
    assert drawn.class_names == {label: "abc"[label] for label in np.unique(drawn.classes).tolist()}
    if samples > 1:
        own = [drawn.places[drawn.cuts[0] == cluster] for cluster in (0, 1)]
        spread = max(np.ptp(each, axis=0).max() for each in own)
        assert np.linalg.norm(own[0].mean(0) - own[1].mean(0)) > spread / 2


def test_of_many_samples_some_are_mapped_evenly_over_clients_with_cluster_and_class(toy: None) -> None:
    clients = [
        Client(i, torch.full((size, 2), float(i)), state={"clusters": torch.full((size,), i)})
        for i, size in enumerate((3000, 1000))
    ]
    people = Population(clients, [torch.full((len(client),), client.id + 5) for client in clients], [])
    (drawn,) = map_of(people, "pca").figures
    assert np.bincount(drawn.cuts[0]).tolist() == np.bincount(drawn.clients).tolist() == [1500, 500]
    assert (drawn.classes == drawn.cuts[0] + 5).all()
    assert "2,000 samples of 4,000" in drawn.caption
    assert not map_of(replace(people, clients=[Client(0, torch.zeros(3, 2))]), "pca").figures


def nodes_of(cuts: list[list[int]], owners: list[int]) -> Nodes:
    found = torch.tensor([0, 0, 1, 1])
    means = torch.tensor([[-1.0], [-1.0], [1.0], [1.0]])
    places = means + torch.tensor([[0.0], [0.1], [0.0], [0.1]])
    return Nodes(places, torch.tensor([9, 7, 6, 5]), found, torch.ones(4), torch.tensor(owners), torch.tensor(cuts),
                 [0.9] * len(cuts), means)  # fmt: skip


def test_a_server_without_samples_shows_its_micro_clusters_at_every_scale(toy: None) -> None:
    settings = load_config("toy", ["simulation.scenario=toy", "evaluation.map=pca"])
    alone = Population([], None, [], ["age"], names=["north", "south"])
    nodes = nodes_of([[0, 0, 0, 0], [1, 1, 0, 0], [2, 2, 1, 0]], [0, 0, 1, 1])
    scaled = scaling("standard", (1,), mean=50.0, scale=10.0)
    (drawn,) = part(page_of_run(settings, alone, scaled, [], {}, nodes=nodes), "map").figures
    assert drawn.chosen == 1
    assert drawn.cuts.tolist() == [[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 2]]
    assert drawn.sizes.tolist() == [9, 7, 6, 5]
    assert "mean of 5 rows or more" in drawn.caption


def test_a_client_finds_its_rows_by_their_ids_on_its_own_page() -> None:
    (drawn,) = part(page_of_client(Client(7, torch.rand(3, 2), state={"clusters": torch.tensor([0, 1, 1])}), "north",
                                   ["a", "b", "c"], "patient"), "map").figures  # fmt: skip
    assert (list(drawn.ids), drawn.id_name, list(drawn.client_names)) == (["a", "b", "c"], "patient", ["north"])


def test_the_clusters_of_a_table_are_described_by_sentences_and_cells(config: Config) -> None:
    n, means = torch.full((2, 2), 40), torch.tensor([[70.0, 1.0], [30.0, 1.1]], dtype=torch.float64)
    squares = n * (means.square() + torch.tensor([5.0, 1.0], dtype=torch.float64).square())
    columns = (Column("age", "number"), Column("noise", "number"))
    nowhere = torch.zeros(2, dtype=torch.float64)
    profile = ClusterProfile(
        columns, n[:, 0], n, nowhere, n * means, squares, torch.zeros(2, 0, dtype=torch.int64),
        typical_filled=n, typical_sum=n * means,
    )  # fmt: skip
    population = Population([client(0, [0, 1])], None, [])
    shown = page_of_run(config, population, scaling("none", (2,)), [], profile=profile)
    words = part(shown, "descriptions")
    assert [text[:10] for text in words.of_clusters] == ["Cluster 0 ", "Cluster 1 "]
    (table,) = words.figures
    assert [name for name, _ in table.rows] == ["age", "noise"]
    assert table.rows[0][1][0].shade > 0 > table.rows[0][1][1].shade
    assert [cell.beside for cell in table.rows[0][1]] == ["typical 70", "typical 30", ""]
    assert table.faint == {"noise"}
    assert [cell.text for cell in table.foot[0][1]] == ["40", "40", ""]
    assert "no number below 5" in part(shown, "sizes").figures[0].caption
