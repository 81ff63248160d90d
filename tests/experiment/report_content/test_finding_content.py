from dataclasses import replace

import pytest
import torch

from fedkin.core import Client
from fedkin.data.population import Population
from fedkin.experiment import registry
from fedkin.experiment.report_content.finding_content import data_sentence, sample_finding
from fedkin.experiment.report_content.sample_content import mixtures_of
from pages import record

CLUSTERS = ([0] * 10 + [1] * 10, [1] * 10)
TRUTH = ([3] * 10 + [4] * 10, [4] * 4 + [5] * 6)


def population(*truth: list[int], classes: tuple[str, ...] = ()) -> Population:
    clients = [
        Client(at, torch.zeros(len(found), 2), state={"clusters": torch.tensor(found)})
        for at, found in enumerate(CLUSTERS)
    ]
    return Population(clients, [torch.tensor(own) for own in truth] or None, list(classes))


def test_one_cluster_of_everything_is_no_finding_and_a_single_client_holds_its_samples() -> None:
    own = population(*TRUTH, classes=("a", "b", "c", "d", "e", "f"))
    for client in own.clients:
        client.state["clusters"] *= 0
    said = sample_finding([0], own.clients, {}, [record(1)])
    assert said == "No clusters were separated: all samples are in one."
    known = sample_finding([0], own.clients, mixtures_of(own.clients, own), [record(1, metrics={"ari": 0.0})])
    assert known.startswith("No clusters were separated: all samples are in one. Cluster 0 mixes class ")
    alone = replace(own, clients=own.clients[:1])
    assert data_sentence(registry.resolve("method", "kfed")(n_clusters=2), alone, "").startswith(
        "1 client holds 20 samples"
    )


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
    assert f"hold 30 samples; {words}" in data_sentence(made, population(), "")
