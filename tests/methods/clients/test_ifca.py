"""IFCA: who is in which cluster is a matter of loss, and a round is one exchange."""

import pytest
import torch

import fedkin
import planted
from fedkin.core import FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.gradient_loss import GradientLossMethod
from fedkin.methods.clients.ifca import IFCAMethod, _Worst, choose_and_train
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


def test_nobody_is_in_a_cluster_before_the_first_round():
    assert planted.run(IFCAMethod(**ONE_ROUND), make_clients()).states[0].labels.tolist() == [-1] * 8


def test_planted_clusters_are_found():
    done = planted.run(IFCAMethod(**(planted.LEARNING | {"n_clusters": 2, "rounds": 5})), make_clients(), seed=1)
    assert planted.same_partition(done.labels, CLUSTERS)
    for client in done.fed.clients.values():
        assert torch.equal(IFCAMethod.predict(done.result, client.x, client.id), client.y)


def test_a_round_is_one_exchange():
    done = planted.run(IFCAMethod(**(ONE_ROUND | {"rounds": 3}), identity="batch", empty="reseed"), make_clients())
    assert done.exchanges == [1, 1, 1]


def test_a_clusters_model_becomes_the_mean_of_its_members():
    done = planted.run(IFCAMethod(**ONE_ROUND), make_clients(), seed=1)
    for cluster in range(2):
        inside = members(done, cluster)
        assert inside
        mean = torch.stack([step_of(done, client) for client in inside]).mean(0)
        assert torch.allclose(done.states[1].models[cluster] - done.states[0].models[cluster], mean, atol=1e-6)


def test_gradients_are_divided_by_all_that_answered():
    done = planted.run(IFCAMethod(**ONE_ROUND, averaging="gradients"), make_clients(), seed=1, failures=[(2, 4)])
    assert len(done.records[0].answered) == 7
    for cluster in range(2):
        inside = [client for client in members(done, cluster) if client.id != 4]
        assert 0 < len(inside) < 7
        total = torch.stack([step_of(done, client) for client in inside]).sum(0)
        assert torch.allclose(done.states[1].models[cluster] - done.states[0].models[cluster], total / 7, atol=1e-6)


def test_a_batch_gives_its_gradient_where_it_gives_the_identity():
    settings = ONE_ROUND | {"batch_size": 4, "n_clusters": 1}
    done = planted.run(IFCAMethod(**settings, averaging="gradients", identity="batch"), [planted.client(0)])
    start, client = done.states[0], done.fed.clients[0]
    client.rng.manual_seed(client.rng.initial_seed())
    rows = torch.randperm(24, generator=client.rng)[:4]
    gradient = planted.gradient(start.module, start.models[0], client.x[rows], client.y[rows])
    assert torch.allclose(done.states[1].models[0], start.models[0] - 0.5 * gradient, atol=1e-6)


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


@pytest.mark.parametrize("averaging", ["models", "gradients"])
def test_shared_layers_move_by_the_mean_of_all_clients(averaging):
    settings = ONE_ROUND | {"n_clusters": 6, "module": "perceptron"}
    done = planted.run(IFCAMethod(**settings, shared_layers=2, averaging=averaging), make_clients(), seed=1)
    shared = Classifier.of(done.states[0].module).leading(2)
    everyone = torch.stack([step_of(done, client) for client in done.fed.clients.values()]).mean(0)
    assert 1 < len(set(done.labels)) < 6
    for before, after in zip(done.states[0].models, done.states[1].models, strict=True):
        assert torch.allclose((after - before)[:shared], everyone[:shared], atol=1e-6)


def test_an_empty_cluster_keeps_its_model():
    done = planted.run(IFCAMethod(**(ONE_ROUND | {"n_clusters": 5})), planted.clients([0, 0]))
    empty = [cluster for cluster in range(5) if not members(done, cluster)]
    assert empty
    for cluster in empty:
        assert torch.equal(done.states[1].models[cluster], done.states[0].models[cluster])


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


def test_models_are_only_kept_where_a_cluster_may_take_them_over(monkeypatch):
    seen = []
    monkeypatch.setattr(_Worst, "see", lambda self, loss, client, model: seen.append(client))
    planted.run(IFCAMethod(**ONE_ROUND), make_clients())
    assert seen == []
    planted.run(IFCAMethod(**ONE_ROUND, empty="reseed"), make_clients())
    assert len(seen) == 8


@pytest.mark.parametrize("seed", range(3))
def test_a_start_like_k_means_finds_planted_clusters(seed):
    settings = planted.LEARNING | {"n_clusters": 2, "rounds": 2, "local_steps": 30}
    done = planted.run(IFCAMethod(**settings, start="kmeans"), make_clients(), seed=seed)
    assert planted.same_partition(done.states[1].labels.tolist(), CLUSTERS)


def test_a_start_like_k_means_goes_on_without_lost_clients():
    lost = [(exchange, client) for exchange in (2, 3, 4) for client in range(6)]
    done = planted.run(IFCAMethod(**ONE_ROUND, start="kmeans"), make_clients(), failures=lost)
    assert bool(done.states[0].models.isfinite().all())


def test_a_start_like_k_means_needs_someone():
    lost = [(exchange, client) for exchange in range(2, 30) for client in range(8)]
    with pytest.raises(FedkinError, match="No client answered"):
        planted.run(IFCAMethod(**ONE_ROUND, start="kmeans"), make_clients(), failures=lost)


def test_a_start_like_k_means_needs_losses_for_the_next_model():
    with pytest.raises(FedkinError, match="No client answered, so the models of IFCA cannot be seeded"):
        planted.run(
            IFCAMethod(**ONE_ROUND, start="kmeans"), make_clients(), failures=[(3, client) for client in range(8)]
        )


def test_without_similarity_gradient_loss_is_ifca_with_one_step():
    settings = ONE_ROUND | {"rounds": 6, "learning_rate": 0.3}
    ours = planted.run(IFCAMethod(**settings, identity="batch"), make_clients(), seed=2)
    theirs = planted.run(GradientLossMethod(**settings, balance=0.0, empty="keep"), make_clients(), seed=2)
    for one, other in zip(ours.states, theirs.states, strict=True):
        assert one.labels.tolist() == other.labels.tolist()
        assert torch.allclose(one.models, other.models, atol=1e-5)


def test_without_similarity_both_choose_alike_on_the_same_mini_batch():
    settings = ONE_ROUND | {"batch_size": 5, "n_clusters": 4}
    ours = planted.run(IFCAMethod(**settings, identity="batch"), make_clients(), seed=2)
    theirs = planted.run(GradientLossMethod(**settings, balance=0.0, empty="keep"), make_clients(), seed=2)
    assert ours.labels == theirs.labels
    whole = planted.run(IFCAMethod(**settings, identity="all"), make_clients(), seed=2)
    assert ours.labels != whole.labels


def test_permuted_clients_are_in_the_permuted_clusters():
    order = [3, 7, 0, 5, 1, 6, 2, 4]
    method = IFCAMethod(**(planted.FULL_BATCH | {"n_clusters": 2, "rounds": 5}))
    one, other = planted.run(method, make_clients()), planted.run(method, planted.permuted(make_clients(), order))
    assert other.labels == [one.labels[old] for old in order]
    assert torch.allclose(one.states[-1].models, other.states[-1].models, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"averaging": "gradients"}, {"empty": "reseed"}, {"identity": "batch"}])
def test_lost_clients_are_no_accident(options):
    planted.outlives_losses(IFCAMethod, n_clusters=3, **options)


def test_a_newcomer_joins_the_cluster_whose_model_fits():
    done = planted.run(IFCAMethod(**(planted.LEARNING | {"n_clusters": 2, "rounds": 5})), make_clients(), seed=1)
    for cluster in (0, 1):
        new = planted.client(50 + cluster, planted.OPPOSITE[cluster])
        assert IFCAMethod.assign(done.result, new) == done.labels[CLUSTERS.index(cluster)]
