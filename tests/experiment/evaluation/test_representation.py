from dataclasses import dataclass

import torch

from fedkin.core import Client
from fedkin.data.population import Population
from fedkin.experiment.evaluation import latents_of
from fedkin.methods.samples.kfed import KFedMethod
from toy import Toy


def people(*sizes: int, clustered: bool = True) -> Population:
    clients = [Client(i, torch.full((size, 2), float(i))) for i, size in enumerate(sizes)]
    for client in clients:
        if clustered:
            client.state["clusters"] = torch.full((len(client),), client.id)
    return Population(clients, [torch.full((size,), i + 5) for i, size in enumerate(sizes)], [])


def test_samples_of_all_clients_keep_cluster_and_class():
    latents = latents_of(Toy(), people(3, 5), {})
    assert latents is not None
    assert latents.points[:, 0].tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    assert latents.clusters.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    assert latents.truth is not None
    assert latents.truth.tolist() == [5, 5, 5, 6, 6, 6, 6, 6]


def test_of_many_samples_some_are_taken_evenly():
    latents = latents_of(Toy(), people(300, 100), {}, limit=40)
    assert latents is not None
    assert latents.clusters.bincount().tolist() == [30, 10]


def test_methods_say_what_clusters_were_found_in():
    @dataclass(frozen=True)
    class Doubled(KFedMethod):
        @staticmethod
        def embed(result, x):
            return 2 * x

    latents = latents_of(Doubled(), people(2, 2), {})
    assert latents is not None
    assert latents.points[:, 0].tolist() == [0, 0, 2, 2]


def test_without_clusters_there_is_nothing_to_show():
    assert latents_of(Toy(), people(3, clustered=False), {}) is None
