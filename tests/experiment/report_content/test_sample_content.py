import dataclasses

import numpy as np
import pytest
import torch

from fedkin.core import Client
from fedkin.data.population import Population
from fedkin.experiment.config import Config
from fedkin.experiment.report_content import view_of
from fedkin.experiment.report_content.sample_content import cluster_profiles, cluster_table
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


def test_confidence_that_some_lack_or_that_tells_nothing_is_left_out() -> None:
    plain = "Samples of each client by cluster."
    some = [client(0, [0, 1], [0.5, 0.7]), client(1, [0, 1], None)]
    assert cluster_table(some, [0, 1], ["a", "b"], {}).caption == plain
    assert cluster_table([client(0, [0, 1], [0.5])], [0, 1], ["a"], {}).caption == plain
    assert cluster_table([client(0, [0, 0], [1.0, 1.0])], [0], ["a"], {}).caption == plain
    many = list(range(20))
    assert cluster_table([client(0, many, [1.0] * 20)], many, ["a"], {}).caption == plain


def test_of_tables_it_is_said_that_a_simulation_counts_all_samples() -> None:
    table = cluster_table([client(0, [0, 0, 1], None)], [0, 1], ["a"], {}, 5)
    assert table.caption == (
        "Samples of each client by cluster. The clients are simulated, so all their samples are counted; sites send no "
        "number below 5, and have no such table."
    )


def test_clusters_are_counted_per_client(config: Config) -> None:
    table = view(config, torch.zeros(4, 3), scaling("standard", (3,))).table
    assert table is not None
    assert (table.clients, table.clusters, table.counts.tolist()) == (["0", "1"], [0, 2], [[1, 3], [1, 1]])


def test_tables_show_the_mean_of_each_column_in_its_deviations(config: Config) -> None:
    x = torch.tensor([[-3.0, 0.0, 0.1], [1.0, 1.0, 0.1], [1.0, 2.0, 0.1], [1.0, 3.0, 0.1]])
    profiles = view(config, x, scaling("none", (3,))).profiles
    assert profiles is not None
    assert profiles.features == ["column 1", "column 2", "column 3"]
    pooled = np.concatenate([x, x[:2]]).astype(np.float64)
    labels = np.array([0, 2, 2, 2, 0, 2])
    z = (pooled - pooled.mean(0)) / np.array([*pooled.std(0)[:2], np.inf])
    np.testing.assert_allclose(profiles.means, [z[labels == 0].mean(0), z[labels == 2].mean(0)], atol=1e-12)


def test_means_of_limited_values_are_said_to_be_so() -> None:
    clients = [Client(0, torch.rand(4, 2), state={"clusters": torch.tensor([0, 0, 1, 1])})]
    assert "count as a limit" not in cluster_profiles(clients, [0, 1], []).caption
    assert "Values far from all others count as a limit." in cluster_profiles(clients, [0, 1], [], True).caption
    plain = scaling("standard", (2,))
    assert not plain.has_limits
    assert plain.scaling is not None
    ends = dataclasses.replace(plain.scaling, low=torch.zeros(2), high=torch.ones(2))
    assert dataclasses.replace(plain, scaling=ends).has_limits


def test_columns_have_their_names(config: Config) -> None:
    clients = [Client(0, torch.rand(4, 2), state={"clusters": torch.tensor([0, 0, 1, 1])})]
    shown = view_of(config, Population(clients, None, [], ["age", "height"]), scaling("none", (2,)), [])
    assert shown.profiles is not None
    assert shown.profiles.features == ["age", "height"]


def test_of_many_columns_those_that_stand_out_are_shown_in_order(config: Config) -> None:
    x = torch.zeros(4, 100)
    x[:, 90] = torch.tensor([9.0, 0.0, 0.0, 0.0])
    x[:, 30] = torch.tensor([0.0, 1.0, 1.0, 1.0])
    profiles = view(config, x, scaling("none", (100,))).profiles
    assert profiles is not None
    assert len(profiles.features) == 40
    assert [name for name in profiles.features if name in ("column 31", "column 91")] == ["column 31", "column 91"]
    assert "the 40 of 100 columns" in profiles.caption


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


@pytest.mark.parametrize("mode", ["none", "standard"])
def test_images_of_other_numbers_are_shown_on_one_scale(config: Config, mode: str) -> None:
    x = torch.tensor([-1.0, 0.0, 0.5, 3.0])[:, None, None, None].expand(4, 1, 5, 4)
    scaled = scaling(mode, (1, 5, 4), *((10.0, 100.0) if mode == "standard" else ()))
    first, second = view(config, x, scaled).pictures
    np.testing.assert_allclose(first.members[:, 0, 0], [0, 0], atol=1e-6)
    np.testing.assert_allclose(second.members[:, 0, 0], [0.25, 0.375, 1, 0.25], atol=1e-6)
    np.testing.assert_allclose(second.mean, np.full((5, 4), 1.875 / 4), atol=1e-6)


def test_images_beside_unit_by_rounding_stay_as_they_are(config: Config) -> None:
    x = torch.tensor([0.25, 0.5, 0.75, 1 + 1e-6])[:, None, None, None].expand(4, 1, 5, 4)
    _, second = view(config, x, scaling("none", (1, 5, 4))).pictures
    assert (second.members[:, 0, 0] == np.float32([0.5, 0.75, 1, 0.5])).all()
