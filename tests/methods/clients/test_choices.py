"""Methods with a model for each cluster, among which clients choose."""

import dataclasses
from collections import Counter
from typing import Any

import pytest
import torch

import fedkin
import planted
from fedkin.core import Client, FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.cfl_gp import CFLGPMethod
from fedkin.methods.clients.clove import CLoVEMethod
from fedkin.methods.clients.fedgroup import FedGroupMethod
from fedkin.methods.clients.fedrc import FedRCMethod, sample_losses, shares_of, weigh_and_train
from fedkin.methods.clients.fesem import FeSEMMethod
from fedkin.methods.clients.gradient_loss import GradientLossMethod
from fedkin.methods.clients.ifca import IFCAMethod, rebalanced
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


def test_clients_choose_the_model_of_least_loss():
    done = planted.run(IFCAMethod(**(ONE_ROUND | {"n_clusters": 3})), make_clients())
    start = done.states[0]
    for client in done.fed.clients.values():
        judged = planted.losses(start.module, start.models, client.x, client.y)
        assert judged.index(min(judged)) == done.labels[client.id]


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("identity", ["all", "batch"])
def test_a_model_that_has_diverged_is_nobodys_choice(identity, hidden):
    method = IFCAMethod(**ONE_ROUND, identity=identity)
    fed = LocalFederation(make_clients(), workers=1)
    if hidden:
        secure(fed)
    state = method.init(fed)
    state.models[0] = torch.nan
    after, record = method.step(fed, state)
    assert record.missing == {}
    assert after.labels.tolist() == [1] * 8
    assert bool(after.models[1].isfinite().all())
    assert not torch.equal(after.models[1], state.models[1])


@pytest.mark.parametrize("hidden", [False, True])
def test_small_clusters_are_filled_up_for_training_alone(hidden):
    method = IFCAMethod(**ONE_ROUND, min_size=3)
    fed = LocalFederation(make_clients(), workers=1)
    if hidden:
        secure(fed)
    state = method.init(fed)
    state.models[0] = state.models[1] * -1e3  # nobody's choice
    after, record = method.step(fed, state)
    assert after.labels.tolist() == [1] * 8
    assert not torch.equal(after.models[0], state.models[0])
    assert record.missing == {}
    with pytest.raises(FedkinError, match=r"min_size.* 2 clusters needs 10 clients in each round, but 8 take part"):
        dataclasses.replace(method, min_size=5).step(fed, state)


def test_those_who_fill_up_are_random_and_none_is_missed():
    clusters = {client: 0 if client < 8 else 1 for client in range(10)}
    moved = [rebalanced(clusters, 3, 3, torch.Generator().manual_seed(seed)) for seed in range(20)]
    assert all(sorted(Counter(each.values()).values()) == [3, 3, 4] for each in moved)
    assert all(each[client] == 1 for each in moved for client in (8, 9))  # of a cluster with too few nobody leaves
    assert len({tuple(client for client in each if each[client] != clusters[client]) for each in moved}) > 10
    assert rebalanced(clusters, 3, 0, torch.Generator()) == clusters
    assert len(rebalanced(clusters, 3, 4, torch.Generator())) == 8  # two are too few for the third, and train nothing


SETTINGS = planted.FULL_BATCH | {"n_clusters": 2}


def gradient_loss_make_clients() -> list[planted.Client]:
    return planted.clients(CLUSTERS, planted.OPPOSITE)


def test_a_round_is_computed_by_hand():
    done = planted.run(GradientLossMethod(**SETTINGS, rounds=3, balance=0.4), gradient_loss_make_clients(), seed=1)
    for before, after in zip(done.states, done.states[1:], strict=False):
        sums, counts = torch.zeros_like(before.models), torch.zeros(2, 1)
        for client in done.fed.clients.values():
            gradients = torch.stack([planted.gradient(before.module, one, client.x, client.y) for one in before.models])
            judged = torch.tensor(planted.losses(before.module, before.models, client.x, client.y))
            lengths = (gradients.norm(dim=1) * before.moves.norm(dim=1)).clamp_min(1e-30)
            cluster = int((0.4 * -(gradients * before.moves).sum(1) / lengths - 0.6 * judged).argmax())
            assert cluster == int(after.labels[client.id])
            sums[cluster] -= 0.5 * gradients[cluster]
            counts[cluster] += 1
        moves = sums / counts.clamp_min(1)
        assert torch.allclose(after.moves, moves, atol=1e-6)
        assert torch.allclose(after.models, before.models + moves, atol=1e-6)


FESEM_CLUSTERS = [0, 1, 1, 0, 1, 0]


def test_a_centre_is_the_mean_of_the_models_nearest_to_it():
    method = FeSEMMethod(**(planted.FULL_BATCH | {"rounds": 2, "n_clusters": 2, "weighting": "clients"}))
    done = planted.run(method, planted.clients(FESEM_CLUSTERS, planted.OPPOSITE))
    before, after = done.states[1], done.states[2]
    trained = []
    for client, one in done.fed.clients.items():
        start = before.models[before.labels[client]]
        trained.append(start - 0.5 * planted.gradient(done.result["module"], start, one.x, one.y))
    nearest = torch.cdist(torch.stack(trained), before.models).argmin(1)
    assert torch.equal(nearest, after.labels)
    for cluster in range(2):
        mean = torch.stack([model for model, own in zip(trained, nearest, strict=True) if own == cluster]).mean(0)
        assert torch.allclose(after.models[cluster], mean, atol=1e-5)


FEDGROUP_SETTINGS: dict[str, Any] = planted.LEARNING | {"rounds": 3, "n_clusters": 4}
FEDGROUP_CLUSTERS = [0, 1, 2, 3, 3, 0, 1, 2, 0]


def test_first_updates_tell_four_clusters_apart():
    done = planted.run(FedGroupMethod(**FEDGROUP_SETTINGS), planted.clients(FEDGROUP_CLUSTERS))
    assert planted.same_partition(done.labels, FEDGROUP_CLUSTERS)


CLOVE_CLUSTERS = [0, 1, 1, 0, 1, 0]


def people(clusters: list[int] = CLOVE_CLUSTERS) -> list[Client]:
    return planted.clients(clusters, planted.OPPOSITE)


def test_a_round_is_the_mean_of_its_clusters_updates():
    method = CLoVEMethod(**(planted.FULL_BATCH | {"rounds": 1, "n_clusters": 2, "weighting": "clients"}))
    done = planted.run(method, people())
    before, after = done.states[0].models, done.states[1].models
    for cluster in range(2):
        members = [client for client, label in enumerate(done.labels) if label == cluster]
        gradients = [
            planted.gradient(done.result["module"], before[cluster], done.fed.clients[i].x, done.fed.clients[i].y)
            for i in members
        ]
        assert torch.allclose(after[cluster], before[cluster] - 0.5 * torch.stack(gradients).mean(0), atol=1e-5)


CFL_GP_SETTINGS: dict[str, Any] = planted.LEARNING | {"rounds": 4, "n_clusters": 4, "coordinates": 10**6}
CFL_GP_CLUSTERS = [0, 1, 2, 3, 3, 0, 1, 2, 0]


def test_every_model_has_its_turn_and_profiles_are_means_of_updates():
    method = CFLGPMethod(**(CFL_GP_SETTINGS | {"rounds": 5, "n_clusters": 2, "period": 1, "clustering_rounds": 5}))
    done = planted.run(method, planted.clients([0, 1, 0, 1], planted.OPPOSITE))
    assert [values["criterion"] for values in done.values] == [0, 1, 0, 1, 0]
    assert done.states[-1].counts.tolist() == [[3] * 4, [2] * 4]
    first, later = done.states[1], done.states[3]
    own = done.fed.clients[2]
    model = first.models[0] * 0 + done.states[2].models[0]
    expected = model.clone()
    for _ in range(5):
        expected = expected - 0.5 * planted.gradient(done.result["module"], expected, own.x, own.y)
    mean = (first.profiles[0, 2] + (expected - model)) / 2
    assert torch.allclose(later.profiles[0, 2], mean, atol=1e-4)


FEDRC_SETTINGS: dict[str, Any] = planted.LEARNING | {"rounds": 8, "n_clusters": 2}
FEDRC_CLUSTERS = [0, 1, 1, 0, 1, 0]


def test_parts_are_those_of_the_formula():
    losses = torch.tensor([[0.1, 2.0], [1.0, 0.5]])
    memberships, frequencies = torch.tensor([0.75, 0.25]), torch.tensor([[0.5, 0.5], [0.2, 0.8]])
    y = torch.tensor([0, 1])
    expected = memberships * (-losses).exp() / frequencies.T[y]
    assert torch.allclose(shares_of(losses, memberships, frequencies, y), expected / expected.sum(1, keepdim=True))
    diverged = torch.tensor([[torch.nan, 2.0], [torch.inf, 0.5]])
    assert shares_of(diverged, memberships, frequencies, y).tolist() == [[0.0, 1.0], [0.0, 1.0]]


def test_a_step_is_the_gradient_of_the_weighted_loss_and_classes_are_counted():
    one = planted.client(0)
    spec = FedRCMethod(**planted.FULL_BATCH).init(LocalFederation([one, planted.client(1)], workers=1)).module
    classifier = Classifier.of(spec)
    models = torch.randn(2, classifier.size, generator=torch.Generator().manual_seed(2))
    method = FedRCMethod(**planted.FULL_BATCH)
    payload = {
        "module": spec,
        "models": models,
        "memberships": torch.tensor([0.6, 0.4]),
        "frequencies": torch.full((2, 6), 1 / 6),
        "training": method.training_settings(),
    }
    assert weigh_and_train.objection(payload) is None
    (reply,) = weigh_and_train.run([one], [payload])
    assert weigh_and_train.refusal(reply) is None
    shares = shares_of(
        sample_losses(classifier, models, one.x, one.y), *[payload[n] for n in ("memberships", "frequencies")], one.y
    )
    for k in range(2):
        module = classifier.module(models[k]).train()
        losses = torch.nn.functional.cross_entropy(module(one.x), one.y, reduction="none")
        (losses * shares[:, k]).mean().backward()
        gradient = torch.cat([part.grad.flatten() for part in module.parameters()])
        assert torch.allclose(reply["updates"][k], -0.5 * gradient, atol=1e-5)
        assert torch.allclose(reply["masses"][k], torch.stack([shares[one.y == c, k].sum() for c in range(6)]) / 24)
    assert torch.allclose(reply["memberships"], shares.mean(0))


def test_a_client_predicts_with_all_models_as_it_belongs_to_them():
    done = planted.run(FedRCMethod(**FEDRC_SETTINGS), planted.clients(FEDRC_CLUSTERS, planted.OPPOSITE))
    classifier, x = Classifier.of(done.result["module"]), planted.client(9).x
    probabilities = torch.stack([classifier.logits(model, x).softmax(1) for model in done.result["models"]])
    expected = (done.result["memberships"][2][:, None, None] * probabilities).sum(0)
    assert torch.allclose(FedRCMethod.logits_of(done.result, x, client=2).exp(), expected, atol=1e-6)
    assert torch.equal(FedRCMethod.predict(done.result, x, client=2), expected.argmax(1))
    assert torch.equal(FedRCMethod.predict(done.result, x, cluster=1), probabilities[1].argmax(1))
