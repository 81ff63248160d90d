import pytest
import torch

from fedkin.core import Client, FedkinError
from fedkin.data.population import Population
from fedkin.data.reading.client_files import READERS
from fedkin.data.scenarios.label_skew import LabelSkew
from fedkin.data.scenarios.planted import Domain, LabelFlip
from fedkin.data.scenarios.preview import preview, previews
from fedkin.experiment import registry


def population(labels, clusters=None, classes="ab", tests=0):
    truth = [torch.tensor(own) for own in labels]
    clients = [Client(i, torch.zeros(len(own), 1)) for i, own in enumerate(labels)]
    held = [(torch.zeros(tests, 1), torch.zeros(tests, dtype=torch.int64)) for _ in labels] if tests else []
    return Population(
        clients, truth, list(classes), tests=held, clusters=None if clusters is None else torch.tensor(clusters)
    )


def test_counts_clusters_and_tests_are_shown():
    assert preview(population([[0, 0, 1], [1] * 12], clusters=[1, 0], tests=4)).splitlines() == [
        "2 clients in 2 clusters (1, 1); 15 samples to train on; 8 to test",
        "client  cluster  train  test   a   b",
        "     0        1      3     4   2   1",
        "     1        0     12     4   .  12",
    ]


def test_without_clusters_and_tests_there_are_no_columns_for_them():
    assert preview(population([[0], [1]]), clients=1).splitlines() == [
        "2 clients; 2 samples to train on; 1 shown",
        "client  train  a  b",
        "     0      1  1  .",
    ]


def test_every_cluster_is_shown():
    lines = preview(population([[0]] * 9, clusters=[0, 0, 0, 0, 1, 1, 1, 2, 2]), clients=4).splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [["0", "0"], ["1", "0"], ["4", "1"], ["7", "2"]]
    lines = preview(population([[0]] * 4, clusters=[3, 1, 0, 2]), clients=1).splitlines()
    assert len(lines) == 6


@pytest.mark.parametrize("classes", [1, 9, 10, 40])
def test_as_many_classes_as_fit_are_shown(classes):
    names = [f"class number {i}" for i in range(classes)]
    lines = preview(population([[0, classes - 1]], classes=names)).splitlines()
    assert max(map(len, lines)) <= 96
    assert (lines[1].endswith("...")) == (lines[1].count("class nu") < classes)
    assert lines[1].count("class nu") >= min(classes, 7)


def test_unlabelled_clients_have_sizes_only():
    assert preview(Population([Client(0, torch.zeros(3, 2))], None, [])).splitlines()[1:] == [
        "client  train",
        "     0      3",
    ]


def test_every_scenario_can_be_shown_or_says_what_it_needs():
    texts = previews({name: registry.resolve("scenario", name) for name in registry.SCENARIOS}, "digits")
    assert list(texts) == list(registry.SCENARIOS)
    refused = {name: text for name, text in texts.items() if "clients" not in text}
    assert refused == {
        "files": f"'digits' is not a folder; give one with a file ({', '.join(READERS)}) per client.",
        "domain": "'digits' has no column 'domain'; the scenario 'domain' needs data from several domains, such as "
        "PACS.",
    }
    assert max(len(line) for name in texts.keys() - refused for line in texts[name].splitlines()) <= 96


def test_a_scenario_that_does_not_suit_the_data_gives_its_reason():
    texts = previews({"label-skew": LabelSkew, "label-flip": LabelFlip}, "iris")
    assert texts["label-flip"] == "n_clusters is 4; allowed: 1 to 3, the classes of 'iris'."
    assert texts["label-skew"].startswith("10 clients; ")


def test_data_that_suit_no_scenario_are_refused():
    with pytest.raises(FedkinError, match=r"^'nowhere.csv' does not exist; "):
        previews({"domain": Domain, "label-flip": LabelFlip}, "nowhere.csv")
