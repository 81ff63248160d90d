"""What nodes and the server measure: means over nodes, by cluster and by node."""

import pytest
import torch
from flwr.app import ArrayRecord, MessageType, MetricRecord

import app_nodes
from app_runs import grid, network, start
from fedkin import flower


def test_metrics_are_means_weighted_by_examples():
    where = grid(more=lambda client: {"number": client.id, "pair": [1.0 * client.id, 1.0]})
    result = start(flower.FedAvgStrategy(), where, num_rounds=2)
    weights = [12, 24, 36, 12, 24, 36]
    expected = sum(at * weight for at, weight in enumerate(weights)) / sum(weights)
    assert result.train_metrics_clientapp[2]["number"] == pytest.approx(expected)
    assert result.train_metrics_clientapp[2]["pair"] == pytest.approx([expected, 1.0])
    assert {node: metrics["number"] for node, metrics in result.train_metrics_by_node.items()} == {
        where.node(at): at for at in range(6)
    }
    assert set(result.evaluate_metrics_clientapp) == {1, 2}
    assert result.evaluate_metrics_by_cluster[2][0] == result.evaluate_metrics_clientapp[2]


def test_each_cluster_has_metrics_of_its_own():
    where = grid()
    result = start(flower.HierarchicalStrategy(clustering_round=1), where, num_rounds=2)
    parts = result.evaluate_metrics_by_cluster[2]
    shares = {0: (12 + 12 + 36) / 144, 1: (24 + 36 + 24) / 144}
    mean = sum(parts[cluster]["eval_loss"] * share for cluster, share in shares.items())
    assert result.evaluate_metrics_clientapp[2]["eval_loss"] == pytest.approx(mean)
    assert parts[0]["eval_loss"] != parts[1]["eval_loss"]


def test_each_node_has_its_evaluation_of_its_clusters_model():
    where = grid()
    result = start(flower.HierarchicalStrategy(clustering_round=1), where, num_rounds=2)
    by_node = result.evaluate_metrics_by_node[2]
    assert set(by_node) == set(result.clusters)
    asked = {
        m.metadata.dst_node_id: m.content["arrays"]
        for m in where.sent
        if m.metadata.message_type == MessageType.EVALUATE and m.content["config"]["server-round"] == 2
    }
    for node in by_node:
        assert torch.equal(app_nodes.vector(asked[node]), app_nodes.vector(result.arrays_of(node)))
    assert len({metrics["eval_loss"] for metrics in by_node.values()}) == 6


def test_the_server_evaluates_the_largest_cluster():
    seen: dict[int, ArrayRecord] = {}

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord | None:
        seen[number] = arrays
        return MetricRecord({"round": number}) if number != 1 else None

    result = start(flower.HierarchicalStrategy(clustering_round=1), grid([0, 1, 1, 0, 1, 1]), evaluate_fn=evaluate)
    assert list(seen) == [0, 1, 2, 3]
    assert torch.equal(app_nodes.vector(seen[0]), app_nodes.vector(app_nodes.arrays(network)))
    assert torch.equal(app_nodes.vector(seen[3]), app_nodes.vector(result.arrays))
    assert result.arrays is result.arrays_by_cluster[result.clusters[1007]]
    assert set(result.evaluate_metrics_serverapp) == {0, 2, 3}
