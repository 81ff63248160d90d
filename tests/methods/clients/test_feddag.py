"""FedDAG: distances, complements and a round by hand."""

from typing import Any

import pytest
import torch
from torch import nn

import planted
from fedkin.core import Client, FedkinError
from fedkin.methods.clients.feddag import (
    FedDAGMethod,
    class_angles,
    class_counts,
    complements,
    fused,
    imbalances,
    second_part,
)
from fedkin.nn.modules import Classifier

SETTINGS: dict[str, Any] = planted.FULL_BATCH | {"module": "perceptron", "rounds": 1, "vectors": 1}
CLUSTERS = [0, 1, 0, 1, 0, 1]


def test_an_angle_is_that_of_one_class_at_a_time() -> None:
    sets = torch.tensor([[[[1.0, 0]], [[0, 0]], [[0, 0]]], [[[-1.0, 1]], [[0, 1]], [[0, 0]]]])
    angles = class_angles(sets, torch.tensor([[3.0, 0, 0], [9, 2, 0]]))
    assert torch.allclose(angles[:, 0, 1], torch.tensor([45.0, 90, 0], dtype=torch.float64))
    assert torch.equal(angles, angles.mT)


def test_unequal_numbers_of_samples_widen_angles() -> None:
    factors = imbalances(torch.tensor([[10.0, 5], [10, 0], [1000, 5]]), delta=0.6)
    assert factors[0, 0, 1] == factors[1, 0, 2] == pytest.approx(0.4)  # as many
    assert factors[0, 0, 2] == factors[0, 2, 1] == pytest.approx(1.6)
    assert factors[1, 0, 1] == 1.0  # one of the two lacks the class


def test_the_sharper_view_gets_the_weight() -> None:
    blocks = torch.ones(4, 4, dtype=torch.float64)
    blocks[:2, :2] = blocks[2:, 2:] = 0
    flat = torch.full((4, 4), 0.5, dtype=torch.float64).fill_diagonal_(0)
    assert torch.allclose(fused(blocks, flat), blocks, atol=1e-6)
    assert torch.allclose(fused(flat, blocks), blocks, atol=1e-6)


def test_a_cluster_learns_from_where_its_rare_classes_are_common() -> None:
    counts = torch.tensor([[9.0, 1, 0], [9, 1, 0], [1, 9, 0], [0, 0, 9], [0, 0, 9]])
    graph = complements(torch.zeros(3, 5, 5, dtype=torch.float64), counts, torch.tensor([0, 0, 1, 2, 2]), sources=1)
    assert graph[:2].tolist() == [[0, 1, 0], [1, 0, 0]]
    assert not graph.diagonal().any()
    alone = complements(torch.zeros(3, 5, 5, dtype=torch.float64), counts, torch.zeros(5, dtype=torch.int64), 2)
    assert alone.tolist() == [[0]]


def test_a_second_encoder_is_trained_by_the_other_cluster() -> None:
    done = planted.run(FedDAGMethod(**SETTINGS, weighting="clients"), planted.clients(CLUSTERS, planted.OPPOSITE))
    assert planted.same_partition(done.labels, CLUSTERS)
    before, after = done.states[-2:]
    assert before.sources.tolist() == [[0, 1], [1, 0]]
    part = second_part(Classifier.of(before.module))
    second = torch.zeros(before.models.shape[1], dtype=torch.bool)
    second[part] = True
    taught = torch.zeros_like(before.models)
    for row, client in done.fed.clients.items():
        cluster, rate = done.labels[row], -0.5 / 3
        step = rate * planted.gradient(before.module, before.models[cluster], client.x, client.y) * ~second
        taught[cluster] += step
        start = before.models[cluster] + 3 * step  # the client's own after its training, beside the others' encoder
        start[second] = before.models[1 - cluster][second]
        taught[1 - cluster] += rate * planted.gradient(before.module, start, client.x, client.y) * second
    assert torch.allclose(after.models - before.models, taught, atol=1e-6)


def test_new_clients_join_by_their_data_and_one_encoder_is_the_module() -> None:
    done = planted.run(FedDAGMethod(**SETTINGS, second_encoder=False), planted.clients(CLUSTERS, planted.OPPOSITE))
    assert done.states[-1].module["name"] == "perceptron"
    unseen = planted.client(60, planted.OPPOSITE[1])
    assert FedDAGMethod.assign(done.result, unseen) == done.labels[1]
    late = planted.run(
        FedDAGMethod(**SETTINGS | {"rounds": 2}), planted.clients(CLUSTERS, planted.OPPOSITE), failures=[(2, 3)]
    )
    assert planted.same_partition(late.labels, CLUSTERS)
    assert class_counts(Client(0, unseen.x, unseen.y), 4).tolist() == [4.0] * 4


def test_a_network_without_a_last_linear_layer_has_no_encoder() -> None:
    with pytest.raises(FedkinError, match="ends in"):
        Classifier.of({"name": f"two encoders, {__name__}:ending_in_relu", "shape": (4,), "classes": 3})


def ending_in_relu(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(*shape, classes), nn.ReLU())
