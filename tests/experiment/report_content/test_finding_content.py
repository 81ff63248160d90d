from dataclasses import replace

import numpy as np
import pytest
import torch

from fedkin.core import Client
from fedkin.data.population import Population
from fedkin.experiment import registry
from fedkin.experiment.report_content.finding_content import client_finding, data_sentence, sample_finding
from fedkin.experiment.report_content.sample_content import mixed_in_words, mixtures_of
from fedkin.report import ClientClusters
from pages import record

CLUSTERS = ([0] * 10 + [1] * 10, [1] * 10)
TRUTH = ([3] * 10 + [4] * 10, [4] * 4 + [5] * 6)


def population(*truth: list[int], classes: tuple[str, ...] = ()) -> Population:
    clients = [
        Client(at, torch.zeros(len(found), 2), state={"clusters": torch.tensor(found)})
        for at, found in enumerate(CLUSTERS)
    ]
    return Population(clients, [torch.tensor(own) for own in truth] or None, list(classes))


def test_clusters_without_a_truth_are_counted_with_their_clients() -> None:
    own = population()
    said = sample_finding([0, 1], own.clients, mixtures_of(own.clients, own), [record(1)])
    assert said == "2 clusters of samples were found; each has samples of 1 to 2 of 2 clients."
    assert sample_finding([], own.clients, {}, []) == ""


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


def test_a_cluster_that_mixes_classes_is_named_with_them() -> None:
    own = population(*TRUTH, classes=("a", "b", "c", "d", "e", "f"))
    mixtures = mixtures_of(own.clients, own)
    assert [each.mostly for each in mixtures.values()] == ["d: 100 %", "e: 70 %"]
    said = sample_finding([0, 1], own.clients, mixtures, [record(1, metrics={"ari": 0.7})])
    assert said.endswith(
        "They match the true classes moderately (ARI 0.70): 1 of 2 holds one class almost alone; cluster 1 mixes "
        "class e (70 %) and class f (30 %)."
    )


def test_pure_clusters_mix_nothing_and_many_mixtures_are_cut_short() -> None:
    own = population([3] * 10 + [4] * 10, [4] * 10)
    assert mixed_in_words(list(mixtures_of(own.clients, own).values())) == ""
    _, mixed = mixtures_of(own.clients, population(*TRUTH)).values()
    assert mixed_in_words([replace(mixed, cluster=at) for at in range(5)]).endswith("and 2 more are mixtures")


@pytest.mark.parametrize(
    ("ari", "words"), [(1.0, "exactly"), (0.93, "closely"), (0.8, "well"), (0.3, "poorly"), (-0.05, "no better than")]
)
def test_an_ari_has_a_word(ari: float, words: str) -> None:
    own = population(*TRUTH)
    found = sample_finding([0, 1], own.clients, mixtures_of(own.clients, own), [record(1, metrics={"ari": ari})])
    assert f"They match the true classes {words}" in found


def lanes(*labels: int) -> ClientClusters:
    return ClientClusters([str(at) for at in range(len(labels))], [1], np.array([labels]).T)


def labelled(*tests: list[int]) -> Population:
    clients = [Client(at, torch.zeros(3, 2), torch.tensor([at, at, 2])) for at in range(2)]
    return Population(clients, None, [], tests=[(torch.zeros(len(y), 2), torch.tensor(y)) for y in tests])


@pytest.mark.parametrize(
    ("accuracy", "words"),
    [
        (0.9, "right for 90 % of its own test samples, as against 50 % by always guessing its most frequent class."),
        (0.47, "which is worse than 50 % by always guessing its most frequent class."),
        (0.49, "which is no better than 50 % by always guessing its most frequent class."),
        (0.51, "which is no better than 50 % by always guessing its most frequent class."),
    ],
)
def test_accuracy_is_compared_with_a_guess(accuracy: float, words: str) -> None:
    said = client_finding(lanes(0, 0), labelled([0, 1], [1, 2]), [record(1, metrics={"personal_accuracy": accuracy})])
    assert said.startswith("One model was trained for all clients. ")
    assert said.endswith(words)


def test_without_tests_there_is_no_guess() -> None:
    said = client_finding(lanes(0, 1), labelled(), [record(1, metrics={"personal_accuracy": 0.5})])
    assert said.endswith("A client's model is right for 50 % of its own test samples.")


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
