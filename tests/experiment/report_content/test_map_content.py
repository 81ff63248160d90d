import numpy as np
import pytest
import torch

from fedkin.core import Client
from fedkin.data.population import Population
from fedkin.experiment.report_content.map_content import LatentSample, latents_of, sample_map
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
