"""Flower's differential privacy and secure aggregation with the strategies: what works, and what is refused."""

from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
)

import app_nodes
import planted
from app_runs import CLUSTERS, network
from fedkin import flower
from fedkin.core import FedkinError


def grid(mod: Any = None) -> app_nodes.Fleet:
    clients = [planted.client(at, planted.OPPOSITE[cluster]) for at, cluster in enumerate(CLUSTERS)]
    app = app_nodes.client_app(clients, network)
    if mod is not None:
        inner = app._registered_funcs["train.default"]
        app._registered_funcs["train.default"] = lambda message, context: mod(message, context, inner)
    return app_nodes.Fleet(app, len(clients))


def start(strategy: Any, where: app_nodes.Fleet, **config: float) -> Any:
    return strategy.start(
        grid=where,
        initial_arrays=app_nodes.arrays(network),
        num_rounds=4,
        timeout=5,
        train_config=ConfigRecord({**app_nodes.START, **config}),
    )


def test_noise_at_the_nodes_goes_into_the_clusters_models():
    torch.manual_seed(0)
    noise = LocalDpMod(clipping_norm=2.0, sensitivity=0.01, epsilon=1.0, delta=1e-5)
    plain, noisy = start(flower.OCFLStrategy(), grid()), start(flower.OCFLStrategy(), grid(noise))
    assert planted.same_partition(list(noisy.clusters.values()), CLUSTERS)
    difference = app_nodes.vector(noisy.arrays) - app_nodes.vector(plain.arrays)
    assert 0.001 < float(difference.std()) < 1


@pytest.mark.parametrize(
    "wrapper", [DifferentialPrivacyServerSideFixedClipping, DifferentialPrivacyClientSideFixedClipping]
)
def test_flowers_wrappers_are_refused_with_the_reason(wrapper):
    wrapped = wrapper(flower.OCFLStrategy(), noise_multiplier=1.0, clipping_norm=1.0, num_sampled_clients=6)
    with pytest.raises(FedkinError, match=r"no other strategy can wrap it.*add LocalDpMod"):
        start(wrapped, grid())
