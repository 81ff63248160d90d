"""What all methods of clustered federated learning share."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import planted
from fedkin.core import Client, FedkinError, State
from fedkin.engines.local import LocalFederation
from fedkin.experiment import registry
from fedkin.methods.clients.client_method import ClientMethod, losses, renumbered
from fedkin.methods.clients.fedavg import FedAvgMethod
from fedkin.nn.descent import LocalTraining


def federation(clients: list[Client], **engine: object) -> LocalFederation:
    return LocalFederation(clients, workers=1, **engine)


@given(st.lists(st.integers(-3, 9)))
def test_equal_partitions_get_equal_numbers(labels):
    numbers = renumbered(labels)
    assert planted.same_partition(labels, numbers)
    assert numbers == renumbered([-label for label in labels])
    seen: list[int] = []
    for number in numbers:
        assert number <= len(seen)
        if number == len(seen):
            seen.append(number)


def test_clients_without_a_cluster_join_that_of_the_model_with_the_lowest_loss():
    fed = federation(planted.clients([0, 3, 0], planted.LEVELS), failures=[(2, 2)])
    method = FedAvgMethod(**planted.LEARNING)
    state = method.init(fed)
    models = torch.randn(3, state.models.shape[1], generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([-1, -1, -1])
    assert list(method.place_by_loss(fed, state.next(models=models), [0, 1, 2], labels)) == [2]
    assert labels[2] == -1
    for client in (0, 1):
        own = fed.clients[client]
        found = planted.losses(state.module, models, own.x, own.y)
        assert labels[client] == found.index(min(found))


def test_nobody_is_asked_for_the_losses_of_nobody():
    fed = federation(planted.clients([0, 1]))
    method = FedAvgMethod(**planted.LEARNING)
    state = method.init(fed)
    before = fed.exchange
    assert method.place_by_loss(fed, state, [0], torch.tensor([1, -1])) == {}
    assert fed.exchange == before


@pytest.mark.parametrize(("participation", "count"), [(1.0, 7), (0.5, 4), (0.3, 2), (0.001, 1)])
def test_participants_are_drawn_anew_in_every_round_and_from_the_seed(participation, count):
    sites = planted.clients([0] * 7)
    method = FedAvgMethod(participation=participation)
    drawn = [method.participants(federation(sites, seed=1), State(steps=steps)) for steps in range(40)]
    assert all(len(set(ids)) == count and ids == sorted(ids) for ids in drawn)
    assert {client for ids in drawn for client in ids} == set(range(7))
    assert drawn == [method.participants(federation(sites, seed=1), State(steps=steps)) for steps in range(40)]


@pytest.mark.parametrize("optimizer", [{"optimizer": "adam"}, {"optimizer": "sgd", "momentum": 0.5}])
def test_clients_train_as_the_method_was_set(optimizer):
    found = {"learning_rate": 0.2, "weight_decay": 0.1, "proximal": 0.3, **optimizer}
    assert FedAvgMethod(local_epochs=4, local_steps=7, batch_size=9, **found).descent() == LocalTraining(
        epochs=4, steps=7, batch_size=9, **found
    )


def test_labels_are_needed():
    clients = [planted.client(0), Client(1, torch.zeros(4, 6))]
    with pytest.raises(FedkinError, match="Client 1 has no labels, which FedAvg needs"):
        FedAvgMethod(module="planted:linear").init(federation(clients))


def test_all_samples_need_one_shape():
    clients = [planted.client(0), Client(1, torch.zeros(4, 5), torch.zeros(4, dtype=torch.int64))]
    with pytest.raises(
        FedkinError, match=r"Client 1 has 5 features where others have 6 features; all clients need the same"
    ):
        FedAvgMethod(module="planted:linear").init(federation(clients))


def test_there_are_as_many_classes_as_the_greatest_label_of_all_says():
    clients = [planted.client(0), Client(1, torch.zeros(4, 6), torch.full((4,), 8))]
    assert FedAvgMethod(module="planted:linear").described(federation(clients)) == ((6,), 9)


def test_vectors_get_a_perceptron_by_default():
    assert FedAvgMethod().init(federation([planted.client(0)])).module["name"] == "perceptron"


def test_the_first_models_come_from_the_seed():
    sites = planted.clients([0, 1])
    one, again, other = (
        FedAvgMethod(module="planted:linear").init(federation(sites, seed=seed)).models for seed in (1, 1, 2)
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_training_does_not_depend_on_who_trains_beside_whom():
    method = FedAvgMethod(**(planted.LEARNING | {"rounds": 2, "batch_size": 5}))
    ends = [planted.run(method, planted.clients([0, 1, 2, 3]), chunk=chunk).states[-1].models for chunk in (1, 4)]
    assert torch.equal(*ends)


def test_a_client_is_served_by_its_clusters_model_or_the_first():
    result = {"models": torch.tensor([[1.0], [2.0]]), "labels": torch.tensor([1, 0, -1])}
    assert [float(ClientMethod.model_of(result, client)) for client in range(3)] == [2.0, 1.0, 1.0]


def test_newcomers_get_the_model_of_least_loss():
    done = planted.run(FedAvgMethod(**(planted.LEARNING | {"rounds": 20})), [planted.client(0)])
    good = done.result["models"]
    new = planted.client(5)
    for at, models in ((1, torch.cat([-good, good])), (0, torch.cat([good, -good]))):
        result = done.result | {"models": models}
        assert ClientMethod.assign(result, new) == at
    diverged = done.result | {"models": torch.cat([torch.full_like(good, torch.nan), -good])}
    assert ClientMethod.assign(diverged, new) == 1


def test_losses_are_mean_cross_entropies():
    done = planted.run(FedAvgMethod(**planted.FULL_BATCH, rounds=2), planted.clients([0, 1]))
    models = torch.cat([state.models for state in done.states])
    client, module = done.fed.clients[1], done.states[0].module
    expected = planted.losses(module, models, client.x, client.y)
    (reply,) = losses.run([client], [{"module": module, "models": models}])
    assert reply["losses"].tolist() == pytest.approx(expected, rel=1e-5)


def test_a_broken_reply_is_refused_and_harms_no_model():
    sites = planted.clients([0, 0, 0])
    sites[1].x[0, 0] = torch.nan
    done = planted.run(FedAvgMethod(**planted.FULL_BATCH, rounds=2), sites)
    assert [list(record.missing) for record in done.records] == [[1], [1]]
    assert "not finite" in done.records[0].missing[1]
    assert bool(done.states[-1].models.isfinite().all())


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        (
            "fedavg",
            {"optimizer": "adam", "momentum": 0.9},
            "momentum is 0.9, but it has no effect with optimizer = 'ad",
        ),
        ("hierarchical", {"optimizer": "adam", "momentum": 0.9}, "momentum is 0.9"),
        ("flux", {"radius": 1.0, "radius_scale": 2.0}, "radius_scale is 2.0, but it has no effect beside a radius tha"),
        ("embedding", {"prototypes": 5}, "prototypes is 5, but it has no effect with form = 'classes'; leave it out."),
        ("embedding", {"delta": 0.1}, "delta is 0.1, but it has no effect with message = 'bits'"),
        ("embedding", {"message": "sums", "flip": 0.2}, "flip is 0.2, but it has no effect with message = 'sums'"),
    ],
)
def test_an_option_without_effect_is_refused(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(FedkinError) as caught:
        registry.resolve("method", name)(**options)
    assert str(caught.value).startswith(said)
