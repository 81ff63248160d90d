"""Options of methods that contradict each other, or that the data cannot serve, are refused before any work."""

from typing import Any

import pytest
import torch

import hostile
import planted
from fedkin.core import Client, FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.experiment import registry
from fedkin.experiment.config import checked_method


@pytest.mark.parametrize(
    ("name", "options", "word"),
    [
        ("hierarchical", {"linkage": "ward", "distance": "cosine"}, "ward"),
        ("hierarchical", {"rounds": 8, "clustering_round": 9}, "clustering_round"),
        ("fedgroup", {"rounds": 2, "clustering_round": 3}, "clustering_round"),
        ("fedavg", {"optimizer": "adam", "momentum": 0.9}, "momentum"),
        ("ocfl", {"clusterer": "hdbscan", "n_clusters": 2}, "n_clusters"),
        ("ladd", {}, "images"),
        ("ccfc", {"n_clusters": 2, "pretrain_rounds": 0, "cluster_rounds": 0}, "pretrain_rounds"),
        ("ccfc", {"n_clusters": 2, "backbone": "resnet18"}, "backbone"),
        ("dec", {"n_clusters": "given"}, "n_clusters"),
        ("kin-graph", {"n_clusters": 2, "resolution": 1.0}, "resolution"),
    ],
)
def test_what_cannot_be_is_refused(name: str, options: dict[str, Any], word: str) -> None:
    clients = planted.clients([0, 1, 0, 1])
    with pytest.raises(FedkinError, match=word):
        checked_method(registry.resolve("method", name), options).init(LocalFederation(clients))


def test_more_clusters_than_samples_are_refused() -> None:
    method = checked_method(registry.resolve("method", "dec"), {"n_clusters": 999})
    fed = LocalFederation(planted.clients([0, 1, 0, 1]))
    with pytest.raises(FedkinError, match="999 clusters of 96 samples"):
        method.step(fed, method.init(fed))


def test_methods_that_train_classifiers_need_labels_and_equal_shapes() -> None:
    unlabelled, wide = Client(1, torch.zeros(4, 6)), Client(1, torch.zeros(4, 5), torch.zeros(4, dtype=torch.int64))
    for other in (unlabelled, wide):
        with pytest.raises(FedkinError, match="Client 1 has"):
            hostile.method_of("fedavg").init(LocalFederation([planted.client(0), other]))
