"""What a strategy found, in memory and in a folder."""

import json

import pytest
import torch
from flwr.app import ArrayRecord
from safetensors.torch import load_file
from torch import nn

from fedkin.flower import ClusterResult


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))


@pytest.fixture
def result() -> ClusterResult:
    models = [ArrayRecord(network(seed).state_dict()) for seed in range(3)]
    return ClusterResult(
        arrays=models[1],
        arrays_by_cluster=models[:2],
        clusters={9: 0, 5: 1, 7: 1},
        own_arrays={5: models[2]},
        nodes=[5, 7, 9, 11],
    )


def test_who_is_where(result):
    assert result.members(1) == [5, 7]
    assert result.arrays_of(9) is result.arrays_by_cluster[0]
    assert result.arrays_of(7) is result.arrays_by_cluster[1]
    assert result.arrays_of(5) is result.own_arrays[5]
    assert result.arrays_of(11) is result.arrays
    assert str(result).startswith("Clusters:\n\tCluster 0: 1 nodes\n\tCluster 1: 2 nodes\n\nGlobal Arrays:\n")


def test_a_folder_holds_a_model_for_each_cluster(result, tmp_path):
    result.save(tmp_path / "found")
    found = json.loads((tmp_path / "found" / "clusters.json").read_text())
    assert found == {
        "clusters": [
            {"model": "cluster-0.safetensors", "nodes": [9]},
            {"model": "cluster-1.safetensors", "nodes": [5, 7]},
        ],
        "own models": {"5": "node-5.safetensors"},
    }
    for seed, name in enumerate(["cluster-0", "cluster-1", "node-5"]):
        saved, expected = load_file(tmp_path / "found" / f"{name}.safetensors"), network(seed)
        network(9).load_state_dict(saved)
        for key, value in expected.state_dict().items():
            assert torch.equal(saved[key], value)
            assert saved[key].dtype == value.dtype
