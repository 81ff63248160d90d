import pytest
import torch

from fedkin.core import Client
from fedkin.experiment.config import Config
from fedkin.experiment.report_content.sample_content import cluster_table
from pages import scaling, view


def client(index: int, clusters: list[int], confidence: list[float] | None) -> Client:
    own = Client(index, torch.zeros(len(clusters), 2))
    own.state["clusters"] = torch.tensor(clusters)
    if confidence is not None:
        own.state["confidence"] = torch.tensor(confidence)
    return own


def test_the_mean_confidence_of_each_cluster_is_told() -> None:
    table = cluster_table(
        [client(0, [0, 0, 1], [0.5, 0.7, 1.0]), client(1, [0, 1], [0.9, 0.5])], [0, 1], ["a", "b"], {}
    )
    assert table.counts.tolist() == [[2, 1], [1, 1]]
    assert table.caption == (
        "Samples of each client by cluster. The mean confidence, 1 in the middle of a cluster and 0 between two, is "
        "0.70 in cluster 0 and 0.75 in cluster 1."
    )


@pytest.mark.parametrize(("channels", "shape"), [(1, (5, 4)), (2, (5, 4)), (3, (5, 4, 3))])
def test_images_show_mean_and_members_as_they_were(config: Config, channels: int, shape: tuple[int, ...]) -> None:
    scaled = scaling("standard", (channels, 5, 4), mean=0.25, scale=0.5)
    shown = view(config, torch.full((4, channels, 5, 4), 0.5), scaled)
    first, second = shown.pictures
    assert (first.cluster, first.size, first.clients, second.cluster, second.size, second.clients) == (0, 2, 2, 2, 4, 2)
    assert first.mean.shape == shape
    assert second.members.shape == (4, *shape)
    assert (first.mean == 0.5).all()
    assert shown.profiles is None
