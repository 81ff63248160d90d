"""Clusters on which several trees agree stay; of single clouds each tree has its own pieces, and they become one."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import make_moons

import fedkin
from fedkin.clustering.graph.found_again import FEWEST_NODES, found_again
from fedkin.clustering.graph.trees import partitions
from fedkin.clustering.metrics import adjusted_rand
from fedkin.core.seeds import derive_generator
from fedkin.experiment.report_content.clustering_content import clustering_of

Floats = NDArray[np.float64]


def judged(x: Floats, clusters: NDArray[np.int64]) -> tuple[NDArray[np.int64], dict[str, object]]:
    points, counts = torch.from_numpy(x).float(), torch.full((len(x),), 6)
    labels, evidence = found_again(
        points, counts, 15, torch.from_numpy(clusters), {"stability": 1.0}, derive_generator(0)
    )
    return labels.numpy(), evidence


@pytest.mark.parametrize("rows", [FEWEST_NODES, 150])
def test_clusters_stay_where_trees_agree_and_pieces_of_noise_do_not(rows):
    truth = np.arange(rows) % 2
    noise = np.random.default_rng(0).normal(size=(rows, 20))
    assert judged(noise + 8 * truth[:, None], truth)[1] == {"stability": 1.0}
    labels, evidence = judged(noise, truth)
    assert not labels.any()
    assert float(str(evidence["agreement"])) < 0.6


def test_with_too_few_nodes_trees_are_not_asked():
    truth = np.arange(FEWEST_NODES - 1) % 2
    assert judged(np.random.default_rng(0).normal(size=(len(truth), 20)), truth)[0].any()


@pytest.mark.parametrize("columns", [5, 20])
def test_a_skewed_cloud_is_one_cluster_and_the_report_says_why(columns):
    """The graph divides its long tails, with a stability of up to 0.86."""
    rng = np.random.default_rng(0)
    model = fedkin.KinGraph(scaling="none", random_state=0).fit(list(np.exp(rng.normal(size=(3, 300, columns)))))
    assert model.n_clusters_ == 1
    assert model.records_[-1]["agreement"] < 0.6
    assert model.scales_[0]["chosen"]
    record = {"step": 3, "answered": [0, 1, 2], "values": model.records_[-1]}
    _, (bars,) = clustering_of([record])
    assert "agree on no division" in bars.caption
    assert model.cut(3).n_clusters_ == 3


def test_each_tree_sees_what_it_is_for():
    """Moons are beyond Ward's method; the density tree leaves a far node outside, which joins the nearest cluster."""
    x, truth = make_moons(160, noise=0.04, random_state=0)
    ward, links, density = partitions(np.concatenate([x, [[9.0, 9.0]]]), np.ones(161), 15, 10)
    assert adjusted_rand(truth, links[2][:160] if links[1][160] != links[1][0] else links[1][:160]) > 0.7
    assert adjusted_rand(truth, density[1][:160]) == 1.0
    assert adjusted_rand(truth, ward[1][:160]) < 0.7
    for tree in (ward, links, density):
        assert all(sorted(set(labels.tolist())) == list(range(k)) for k, labels in enumerate(tree, 1))
    assert len(ward) == len(links) == 10
