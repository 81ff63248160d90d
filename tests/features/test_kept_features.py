"""Features of a client's samples are computed once in a run, however often its tasks need them."""

import gc

import pytest
import torch

from fedkin.core import Client, FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.features import kept_features
from fedkin.features.extractors import forget, register
from fedkin.methods.samples.afcl import AFCLMethod
from fedkin.methods.samples.centralized import KMeansMethod
from fedkin.methods.samples.feddp_kmeans import FedDPKMeansMethod
from fedkin.methods.samples.ffcm import FFCMMethod
from fedkin.methods.samples.kfed import KFedMethod
from fedkin.methods.samples.mufc import MUFCMethod
from fedkin.methods.samples.sample_method import SampleMethod

METHODS = {
    "afcl": AFCLMethod(features="counted"),
    "centralized-kmeans": KMeansMethod(n_clusters=2, features="counted"),
    "feddp-kmeans": FedDPKMeansMethod(n_clusters=2, features="counted"),
    "ffcm": FFCMMethod(n_clusters=2, rounds=3, features="counted"),
    "kfed": KFedMethod(n_clusters=2, features="counted"),
    "mufc": MUFCMethod(n_clusters=2, features="counted"),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_features_of_a_client_are_computed_once_per_run(method: SampleMethod):
    computed: list[int] = []

    def counted(x: torch.Tensor) -> torch.Tensor:
        computed.append(len(x))
        return x.flatten(1) * 2

    clients = [Client(i, torch.rand(60 + i, 3, generator=torch.Generator().manual_seed(i))) for i in range(3)]
    register("counted", counted)
    try:
        fed = LocalFederation(clients, seed=0)
        state = method.init(fed)
        while not state.finished:
            state, _ = method.step(fed, state)
    finally:
        forget("counted")
    assert all("clusters" in client.state for client in clients)
    assert sorted(count for count in computed if count > 1) == [60, 61, 62]  # a single sample tells the width


def test_features_are_kept_no_longer_than_the_samples():
    gc.collect()
    x = torch.rand(5, 2)
    before = len(kept_features._kept)
    kept_features.cached_features("unit", x)
    assert len(kept_features._kept) == before + 1
    del x
    gc.collect()
    assert len(kept_features._kept) == before


def test_features_that_are_not_one_row_per_sample_are_refused_and_not_kept():
    x = torch.rand(5, 2)
    with pytest.raises(FedkinError, match=r"^Features 'odd' are not one row of numbers per sample\.$"):
        kept_features.kept_or_computed(x, ("odd",), lambda batch: batch[1:])
    assert x not in kept_features._kept
