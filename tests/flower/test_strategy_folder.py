"""A strategy's run that is killed and started again."""

import json
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message, MessageType
from safetensors.torch import load_file

import app_nodes
import planted
from app_runs import CLUSTERS, network
from fedkin import flower
from fedkin.core import FedkinError

CUTS = {"cooldown": 1, "mean_below": 0.5, "separation": 1.0}


class KilledError(Exception):
    """Stands for the end of a process."""


def grid(named: bool = False, first: int = 1000) -> app_nodes.Fleet:
    clients = [planted.client(at, planted.OPPOSITE[cluster], samples=12) for at, cluster in enumerate(CLUSTERS)]
    app = app_nodes.client_app(clients, network)
    if named:
        app.query("fedkin")(flower.report_name)
    where = app_nodes.Fleet(app, len(clients))
    if first != 1000:  # as a simulation, whose node ids are new in every run, and not in order of partitions
        where.contexts = {
            first - at: Context(1, first - at, context.node_config, context.state, {})
            for at, context in enumerate(where.contexts.values())
        }
    return where


def start(strategy: Any, where: app_nodes.Fleet, folder: Path | None, rounds: int = 4, **more: Any) -> Any:
    first: Any = app_nodes.arrays(network)
    if isinstance(strategy, flower.CLoVEStrategy):
        first = [app_nodes.arrays(network, k) for k in range(2)]
    return strategy.start(
        grid=where, initial_arrays=first, num_rounds=rounds, timeout=5, train_config=app_nodes.START, folder=folder,
        **more,
    )  # fmt: skip


def killed_in(where: app_nodes.Fleet, number: int) -> app_nodes.Fleet:
    def kill(message: Message, partition: int) -> None:
        if message.metadata.message_type == MessageType.TRAIN:
            config = message.content["config"]
            if config["server-round"] == number and partition == 3:
                raise KilledError

    where.troubles = kill
    return where


def plain(result: Any) -> dict[str, Any]:
    """Everything in a result, to compare."""
    found = {name: value for name, value in vars(result).items() if "arrays" not in name and not callable(value)}
    models = [app_nodes.vector(one).tolist() for one in result.arrays_by_cluster]
    return {**json.loads(json.dumps(found, default=dict, sort_keys=True)), "models": models}


def assert_same(one: Any, other: Any) -> None:
    """Equal, but for the last digits: what a client app computes depends on where its arrays lie in memory."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            assert_same(*pair)
    else:
        assert one == (pytest.approx(other, rel=1e-4, abs=1e-6) if isinstance(other, float) else other)


@pytest.mark.parametrize(
    "make",
    [
        lambda **own: flower.OCFLStrategy(fraction_train=0.7, seed=2, **own),
        lambda **own: flower.SattlerStrategy(**CUTS, **own),
        lambda **own: flower.IFCAStrategy(n_clusters=2, **own),
        lambda **own: flower.CLoVEStrategy(n_clusters=2, fraction_evaluate=0.5, **own),
        lambda **own: flower.FedOptStrategy(**own),
    ],
    ids=["ocfl", "sattler", "ifca", "clove", "fedopt"],
)
def test_a_run_that_is_killed_ends_as_if_it_had_not_been(make, tmp_path):
    expected = start(make(), grid(), None)
    for number in (2, 4):
        with pytest.raises(KilledError):
            start(make(), killed_in(grid(), number), tmp_path / "run")
    where = grid()
    result = start(make(), where, tmp_path / "run")
    assert_same(plain(result), plain(expected))
    rounds = {m.content["config"]["server-round"] for m in where.sent if m.metadata.message_type == MessageType.TRAIN}
    assert rounds <= {4}


def test_by_name_it_resumes_with_other_node_ids_and_results_are_by_partition(tmp_path):
    expected = start(flower.OCFLStrategy(names=True), grid(named=True), None)
    with pytest.raises(KilledError):
        start(flower.OCFLStrategy(names=True), killed_in(grid(named=True), 3), tmp_path)
    result = start(flower.OCFLStrategy(names=True), grid(named=True, first=77), tmp_path)
    assert_same(plain(result), plain(expected))
    assert result.nodes == [0, 1, 2, 3, 4, 5]
    assert planted.same_partition([result.clusters[at] for at in range(6)], CLUSTERS)
    assert set(result.evaluate_metrics_by_node[4]) == set(range(6))


@pytest.mark.parametrize(
    ("strategy", "more", "sentence"),
    [
        (flower.OCFLStrategy(), {"rounds": 5}, "num_rounds is 4 there, and 5 here; give another folder."),
        (flower.FedAvgStrategy(), {}, "strategy is 'OCFLStrategy' there, and 'FedAvgStrategy' here; give another"),
        (flower.OCFLStrategy(names=True), {}, "names is False there, and True here"),
        (flower.OCFLStrategy(clusterer="meanshift"), {}, "clusterer is "),
    ],
)
def test_another_run_needs_another_folder(strategy, more, sentence, tmp_path):
    start(flower.OCFLStrategy(), grid(), tmp_path)
    with pytest.raises(FedkinError, match="holds another run: ") as refused:
        start(strategy, grid(), tmp_path, **more)
    assert sentence in str(refused.value)


def test_each_cluster_has_its_model_in_the_folder_after_every_round(tmp_path):
    seen = []

    def look(number: int, arrays: Any) -> None:
        found = tmp_path / "models" / "clusters.json"
        seen.append(len(json.loads(found.read_text())["clusters"]) if found.exists() else 0)

    result = start(flower.HierarchicalStrategy(clustering_round=2), grid(), tmp_path, evaluate_fn=look)
    assert seen == [0, 1, 1, 2, 2]
    for at, arrays in enumerate(result.arrays_by_cluster):
        saved = load_file(tmp_path / "models" / f"cluster-{at}.safetensors")
        assert {name: value.tolist() for name, value in saved.items()} == {
            name: array.numpy().tolist() for name, array in arrays.items()
        }
