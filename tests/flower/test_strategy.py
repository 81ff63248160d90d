"""What a strategy is given, and what its rounds ask of nodes."""

import inspect

import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, MessageType
from flwr.serverapp.strategy import FedAvg as FlowersFedAvg

import app_nodes
from app_runs import grid, network, sent, start
from fedkin import flower
from fedkin.core import FedkinError


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: flower.OCFLStrategy(learning_rate=0.1),
            "OCFLStrategy has no parameter 'learning_rate': it is the client app's own, which train_config of start() "
            "can "
            "set.",
        ),
        (
            lambda: flower.OCFLStrategy(rounds=3),
            "OCFLStrategy has no parameter 'rounds': it is given to start() as num_rounds.",
        ),
        (
            lambda: flower.IFCAStrategy(averaging="gradients"),
            "IFCAStrategy has no parameter 'averaging': it is always 'models' with a client app that is not fedkin's "
            "own.",
        ),
        (
            lambda: flower.IFCAStrategy(n_clusters=0),
            "'n_clusters' is 0 in IFCA; it should be greater than or equal to 1.",
        ),
        (
            lambda: flower.OCFLStrategy(trigger="now"),
            "'trigger' is 'now' in OCFL; it should be 'first-rise' or 'printed'.",
        ),
        (
            lambda: flower.OCFLStrategy(fraction_train=0.0),
            "fraction_train is 0.0 in OCFLStrategy; allowed: above 0, at most 1.",
        ),
        (lambda: flower.OCFLStrategy(fraction_evaluate=2), "fraction_evaluate is 2 in OCFLStrategy; allowed: 0 to 1."),
        (
            lambda: flower.HierarchicalStrategy(linkage="ward"),
            "linkage 'ward' needs distance 'euclidean', not 'cosine'.",
        ),
        (
            lambda: start(flower.HierarchicalStrategy(), grid(), num_rounds=4),
            "clustering_round is 5, but the number of rounds is 4, so clients would never be clustered; set it no "
            "higher "
            "than that.",
        ),
        (lambda: start(flower.OCFLStrategy(), grid(), num_rounds=0), "num_rounds is 0; allowed: whole numbers from 1."),
        (
            lambda: start(flower.OCFLStrategy(), grid(), num_rounds="3"),
            "num_rounds is '3'; allowed: whole numbers from 1.",
        ),
        (
            lambda: start(flower.OCFLStrategy(), grid(), timeout=0),
            "timeout is 0; allowed: above 0, in seconds, or None.",
        ),
        (
            lambda: flower.OCFLStrategy(min_train_nodes=-1),
            "min_train_nodes is -1 in OCFLStrategy; allowed: whole numbers from 0.",
        ),
        (
            lambda: flower.OCFLStrategy(weighted_by_key=None),
            "weighted_by_key is None in OCFLStrategy; allowed: names.",
        ),
        (
            lambda: flower.OCFLStrategy(evaluate_metrics_aggr_fn="mean"),
            "evaluate_metrics_aggr_fn is 'mean' in OCFLStrategy; allowed: functions, and None.",
        ),
        (
            lambda: start(flower.OCFLStrategy(), grid(), initial_arrays=network().state_dict()),
            "initial_arrays is of type OrderedDict; give an ArrayRecord, as in ArrayRecord(model.state_dict()), or a "
            "list of them.",
        ),
        (
            lambda: start(flower.OCFLStrategy(), grid(), initial_arrays=[]),
            "initial_arrays is of type list, which is empty; give an ArrayRecord, as in "
            "ArrayRecord(model.state_dict()), or a list of them.",
        ),
        (
            lambda: start(flower.OCFLStrategy(), grid(), train_config=0.1),
            "train_config is of type float; give a ConfigRecord, or a function that returns one for a round.",
        ),
        (
            lambda: start(flower.OCFLStrategy(), grid(), evaluate_fn=lambda number, arrays: 0.5),
            "evaluate_fn returned float, which is no MetricRecord ('float' object is not iterable).",
        ),
        (
            lambda: flower.OCFLStrategy().configure_train(1, ArrayRecord(), ConfigRecord(), grid()),
            "OCFLStrategy has a model for every cluster, so no other strategy can wrap it; call its start(). Flower's "
            "differential privacy at the server protects the mean of one model, but neither the choice of clusters nor "
            "means of a few nodes; add LocalDpMod to the client app instead.",
        ),
    ],
)
def test_what_is_not_allowed_gets_a_sentence(make, sentence):
    with pytest.raises(FedkinError) as refused:
        make()
    assert str(refused.value) == sentence


def test_a_strategy_of_ones_own_inherits_its_method():
    class Quiet(flower.OCFLStrategy):
        def summary(self) -> None:
            pass

    assert "clusterer" in inspect.signature(Quiet).parameters
    assert start(Quiet(clusterer="meanshift"), grid()).method == "OCFL"
    with pytest.raises(FedkinError, match=r"^Mine.configure_train would never be called: .* function of the round"):
        type("Mine", (flower.OCFLStrategy,), {"configure_train": None})


def test_configurations_can_be_functions_of_the_round():
    where = grid()
    start(
        flower.OCFLStrategy(),
        where,
        train_config=lambda number: ConfigRecord({"steps": 5, "rate": 0.5 / number}),
        timeout=None,
    )
    rates = {m.content["config"]["rate"] for m in where.sent if m.metadata.message_type == MessageType.TRAIN}
    assert rates == {0.5, 0.25, 0.5 / 3}
    with pytest.raises(FedkinError, match="train_config of round 1 is no configuration that Flower can send"):
        start(flower.OCFLStrategy(), grid(), train_config=lambda number: {"rate": None})
    with pytest.raises(FedkinError, match="train_config of round 1 is no configuration that Flower can send"):
        start(flower.OCFLStrategy(), grid(), train_config=lambda number: None)


@pytest.mark.parametrize(("nodes", "fraction"), [(7, 0.5), (6, 0.45), (3, 0.99), (6, 0.4), (5, 1.0), (7, 0.01)])
def test_as_many_train_as_with_flowers_fedavg(nodes, fraction):
    counts = []
    for strategy in (
        flower.FedAvgStrategy(fraction_train=fraction, min_train_nodes=1, min_available_nodes=1),
        FlowersFedAvg(fraction_train=fraction, min_train_nodes=1, min_available_nodes=1),
    ):
        where = grid([0] * nodes)
        if isinstance(strategy, FlowersFedAvg):
            messages = strategy.configure_train(1, app_nodes.arrays(network), ConfigRecord(), where)
            counts.append(len(list(messages)))
        else:
            start(strategy, where, num_rounds=1)
            counts.append(len(sent(where, MessageType.TRAIN, 1)))
    assert counts[0] == counts[1]


def test_the_app_gets_what_flower_would_send_it():
    where = grid()
    settings = ConfigRecord({"batch": 7})
    start(flower.OCFLStrategy(), where, num_rounds=2, evaluate_config=settings)
    train, evaluate = where.sent[0].content["config"], where.sent[-1].content["config"]
    assert dict(train) == {**app_nodes.START, "server-round": 1}
    assert dict(evaluate) == {"batch": 7, "server-round": 2}
    assert dict(settings) == {"batch": 7}


def test_a_cluster_of_nobody_keeps_its_model():
    where = grid([0] * 6)
    rng = torch.Generator().manual_seed(0)
    first = [app_nodes.arrays(network)] * 2
    first[1] = ArrayRecord({name: 99 * torch.randn(array.shape, generator=rng) for name, array in first[0].items()})
    result = flower.IFCAStrategy(n_clusters=2).start(
        grid=where, initial_arrays=first, num_rounds=2, train_config=app_nodes.START
    )
    assert set(result.clusters.values()) == {0}
    assert torch.equal(app_nodes.vector(result.arrays_by_cluster[1]), app_nodes.vector(first[1]))
