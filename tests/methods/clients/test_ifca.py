"""IFCA: who is in which cluster is a matter of loss, and a round is one exchange."""

import pytest
import torch

import fedkin
import planted
from fedkin.core import FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.ifca import IFCAMethod, choose_and_train
from fedkin.nn.modules import Classifier
from fedkin.secure_aggregation.sums import secure

CLUSTERS = [0, 1, 1, 0, 1, 0, 0, 1]
ONE_ROUND = planted.FULL_BATCH | {"rounds": 1, "n_clusters": 2, "weighting": "clients"}


def make_clients(samples: int = 24) -> list[planted.Client]:
    return planted.clients(CLUSTERS, planted.OPPOSITE, samples)


def members(done: planted.Run, cluster: int, at: int = 1) -> list[planted.Client]:
    labels = done.states[at].labels.tolist()
    return [client for client in done.fed.clients.values() if labels[client.id] == cluster]


def step_of(done: planted.Run, client: planted.Client) -> torch.Tensor:
    """A client's step in the first round, on all of its data."""
    start = done.states[0]
    cluster = int(done.states[1].labels[client.id])
    return -0.5 * planted.gradient(start.module, start.models[cluster], client.x, client.y)


def test_from_given_weights_each_model_is_trained_first():
    settings = planted.LEARNING | {"module": planted.zeros, "rounds": 6, "n_clusters": 2}
    with pytest.raises(FedkinError, match=r"All 2 models start with the same weights, .* with start 'kmeans' each"):
        fedkin.IFCA(**settings, random_state=0).fit([(one.x, one.y) for one in make_clients()])
    found = fedkin.IFCA(**settings, start="kmeans", random_state=0).fit([(one.x, one.y) for one in make_clients()])
    assert planted.same_partition(found.client_labels_.tolist(), CLUSTERS)
    fedkin.IFCA(**(settings | {"n_clusters": 1}), random_state=0).fit([(one.x, one.y) for one in make_clients()])


@pytest.mark.parametrize("seed", range(4))
def test_clients_choose_the_model_of_least_loss(seed):
    done = planted.run(IFCAMethod(**(ONE_ROUND | {"n_clusters": 3})), make_clients(), seed=seed)
    start = done.states[0]
    for client in done.fed.clients.values():
        judged = planted.losses(start.module, start.models, client.x, client.y)
        assert judged.index(min(judged)) == done.labels[client.id]


def test_a_clusters_model_becomes_the_mean_of_its_members():
    done = planted.run(IFCAMethod(**ONE_ROUND), make_clients(), seed=1)
    for cluster in range(2):
        inside = members(done, cluster)
        assert inside
        mean = torch.stack([step_of(done, client) for client in inside]).mean(0)
        assert torch.allclose(done.states[1].models[cluster] - done.states[0].models[cluster], mean, atol=1e-6)


@pytest.mark.parametrize("averaging", ["models", "gradients"])
@pytest.mark.parametrize("empty", ["keep", "reseed"])
def test_shared_layers_stay_equal_in_all_clusters(averaging, empty):
    settings = ONE_ROUND | {"rounds": 3, "n_clusters": 5}
    done = planted.run(IFCAMethod(**settings, shared_layers=1, averaging=averaging, empty=empty), make_clients())
    shared = Classifier.of(done.states[0].module).leading(1)
    assert 0 < shared < done.states[0].models.shape[1]
    for state in done.states:
        assert bool((state.models[:, :shared] == state.models[0, :shared]).all())
    assert not torch.equal(done.states[0].models[0, :shared], done.states[-1].models[0, :shared])
    assert not torch.equal(done.states[-1].models[0, shared:], done.states[-1].models[1, shared:])


def test_an_empty_cluster_takes_over_the_model_of_the_client_that_fares_worst():
    settings = ONE_ROUND | {"n_clusters": 3}
    done = planted.run(IFCAMethod(**settings, empty="reseed"), planted.clients([0, 0, 3]), seed=5)
    empty = [cluster for cluster in range(3) if not members(done, cluster)]
    assert empty
    by_loss = sorted(done.values[0]["losses"].items(), key=lambda pair: -pair[1])
    for cluster, (worst, _) in zip(empty, by_loss, strict=False):
        client = done.fed.clients[int(worst)]
        own = done.states[0].models[done.labels[client.id]] + step_of(done, client)
        assert torch.allclose(done.states[1].models[cluster], own, atol=1e-6)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("identity", ["all", "batch"])
def test_a_model_that_has_diverged_is_nobodys_choice(identity, hidden):
    method = IFCAMethod(**ONE_ROUND, identity=identity)
    fed = LocalFederation(make_clients(), workers=1)
    if hidden:
        secure(fed, method)
    state = method.init(fed)
    state.models[0] = torch.nan
    after, record = method.step(fed, state)
    assert record.missing == {}
    assert after.labels.tolist() == [1] * 8
    assert bool(after.models[1].isfinite().all())
    assert not torch.equal(after.models[1], state.models[1])


def test_a_client_sends_its_choice_and_no_other_loss_than_its_trainings():
    method, site = IFCAMethod(**ONE_ROUND), planted.client(0)
    state = method.init(LocalFederation([site], workers=1))
    (reply,) = choose_and_train.run([site], [method._payload(state) | {"averaging": "models"}])
    assert set(reply) == {"cluster", "update", "samples", "loss"}


@pytest.mark.parametrize("seed", range(3))
def test_a_start_like_k_means_finds_planted_clusters(seed):
    settings = planted.LEARNING | {"n_clusters": 2, "rounds": 2, "local_steps": 30}
    done = planted.run(IFCAMethod(**settings, start="kmeans"), make_clients(), seed=seed)
    assert planted.same_partition(done.states[1].labels.tolist(), CLUSTERS)
