import torch

from fedkin.core import Client
from fedkin.data.names import READ
from fedkin.data.population import Population
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


def test_every_scenario_can_be_shown_or_says_what_it_needs():
    texts = previews({name: registry.resolve("scenario", name) for name in registry.SCENARIOS}, "digits")
    assert list(texts) == list(registry.SCENARIOS)
    refused = {name: text for name, text in texts.items() if "clients" not in text}
    assert refused == {
        "files": f"'digits' is not a folder; give one with a file ({', '.join(READ)}) per client.",
        "domain": "'digits' has no column 'domain'; the scenario 'domain' needs data from several domains, such as "
        "PACS.",
    }
    assert max(len(line) for name in texts.keys() - refused for line in texts[name].splitlines()) <= 96
