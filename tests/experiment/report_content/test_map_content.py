from dataclasses import dataclass

import numpy as np
import pytest
import torch

from fedkin.core import Client
from fedkin.data.population import Population
from fedkin.experiment.report_content.map_content import LatentSample, latents_of, sample_map
from fedkin.methods.samples.kfed import KFedMethod
from toy import Toy


def latents(samples: int, width: int = 5) -> LatentSample:
    clusters = torch.arange(samples) % 2
    noise = torch.randn(samples, width, generator=torch.Generator().manual_seed(0))
    return LatentSample(noise + 20 * clusters[:, None], clusters, clusters + 1)


@pytest.mark.parametrize(("layout", "samples"), [("tsne", 60), ("pca", 60), ("tsne", 5), ("tsne", 1), ("pca", 1)])
def test_a_map_keeps_clusters_apart_and_is_the_same_again(layout, samples):
    drawn = sample_map(latents(samples), layout, ["a", "b", "c"])
    again = sample_map(latents(samples), layout, ["a", "b", "c"])
    assert drawn is not None
    assert again is not None
    assert np.array_equal(drawn.places, again.places)
    assert f"{samples} samples" in drawn.caption
    if samples > 1:
        middle = [drawn.places[drawn.clusters == cluster].mean(0) for cluster in (0, 1)]
        spread = max(np.ptp(drawn.places[drawn.clusters == cluster], axis=0).max() for cluster in (0, 1))
        assert np.linalg.norm(middle[0] - middle[1]) > spread / 2


def test_equal_samples_and_a_single_column_are_no_trouble():
    same = LatentSample(torch.ones(20, 3), torch.zeros(20, dtype=torch.int64), None)
    assert sample_map(same, "tsne", []) is not None
    for layout in ("tsne", "pca"):
        line = sample_map(latents(30, width=1), layout, [])
        assert line is not None
        assert np.ptp(line.places, axis=0)[0] > 10
        assert np.ptp(line.places, axis=0)[1] == 0
        assert "principal components" in line.caption


def test_classes_have_the_colours_of_the_clusters_that_stand_for_them():
    clusters = torch.tensor([0, 0, 0, 1, 1, 1, 1, 3])
    truth = torch.tensor([7, 7, 2, 2, 2, 2, 5, 9])
    drawn = sample_map(LatentSample(torch.randn(8, 3), clusters, truth), "pca", [])
    assert drawn is not None
    assert drawn.colours == {7: 0, 2: 1, 9: 3, 5: 4}  # 5 is left over
    assert "colour of the cluster" in drawn.caption


def test_no_map_where_none_is_wanted():
    assert sample_map(latents(5), "none", []) is None


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
