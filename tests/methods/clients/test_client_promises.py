"""What every method that clusters clients promises, whatever its algorithm."""

from typing import Any

import pytest

import pictures
import planted
import spoiled
from fedkin.engines.local import LocalFederation
from fedkin.experiment import registry
from fedkin.experiment.config import checked_method

NAMES = [name for name, entry in registry.METHODS.items() if "methods.clients." in entry.target]
OPTIONS: dict[str, dict[str, Any]] = {
    "embedding": {"module": "perceptron", "pretraining_rounds": 2},
    "hierarchical": {"clustering_round": 1},
    "ifca": {"n_clusters": 2, "start": "kmeans"},
    "ladd": {"module": "perceptron", "n_clusters": 2},
}


def method_of(name: str) -> Any:
    settings = {**planted.LEARNING, "rounds": 3, **OPTIONS.get(name, {})}
    if name == "gradient-loss":
        settings.pop("local_steps")
    return checked_method(registry.resolve("method", name), settings)


@pytest.mark.parametrize("spoil", [spoiled.shorter, spoiled.wider, spoiled.in_words, spoiled.poorer])
@pytest.mark.parametrize("name", NAMES)
def test_a_reply_that_is_not_as_it_must_be_counts_as_missing(name, spoil, monkeypatch: pytest.MonkeyPatch):
    """Whatever a client sends once all have begun, the others go on."""
    clusters = [0, 1, 0, 1, 0, 1]
    clients = (
        pictures.clients(clusters) if name in ("embedding", "ladd") else planted.clients(clusters, planted.OPPOSITE)
    )
    fed, method = LocalFederation(clients, workers=1), method_of(name)
    state, missing = method.init(fed), set()
    spoiled.by(1, spoil, monkeypatch)
    while not state.finished:
        state, record = method.step(fed, state)
        missing |= set(record.missing)
    assert missing == {1}
    assert bool(method.result(state)["models"].isfinite().all())


LOSSES: list[tuple[str, dict[str, Any]]] = [
    ("cfl-gp", {"n_clusters": 4}),
    ("clove", {"n_clusters": 4}),
    ("fedavg", {}),
    ("feddrift", {"rounds": 6, "period": 2}),
    ("fedgroup", {"n_clusters": 4}),
    ("declared", {}),
    ("ditto", {}),
    ("fedrep", {"head_tensors": 1}),
    ("fedopt", {}),
    ("fedrc", {"n_clusters": 4}),
    ("fesem", {"n_clusters": 4}),
    ("hierarchical", {"clustering_round": 2}),
    ("ifca", {"n_clusters": 3}),
    ("ifca", {"n_clusters": 3, "averaging": "gradients"}),
    ("local", {}),
    ("ocfl", {"rounds": 6}),
    ("ocfl", {"rounds": 6, "clusterer": "hdbscan"}),
    ("sattler", {"rounds": 8, "cooldown": 0}),
]


@pytest.mark.parametrize(("name", "options"), LOSSES)
def test_lost_clients_harm_nobody(name: str, options: dict[str, Any]) -> None:
    planted.outlives_losses(lambda **all: checked_method(registry.resolve("method", name), all), **options)


@pytest.mark.parametrize("name", ["flux", "gradient-loss", "hierarchical", "ocfl", "pacfl"])
def test_permuted_clients_are_in_the_permuted_clusters(name: str) -> None:
    order = [3, 7, 0, 5, 1, 6, 2, 4]
    settings = {
        **planted.FULL_BATCH,
        "rounds": 12,
        "n_clusters": 2,
        "warm_up": 2,
        "clustering_round": 2,
        "empty": "keep",
    }
    kind = registry.resolve("method", name)
    settings = {key: value for key, value in settings.items() if key in kind.__dataclass_fields__}
    if name == "gradient-loss":
        settings.pop("local_steps")
    people = planted.clients([1, 0, 0, 1, 0, 1, 1, 0], planted.OPPOSITE)
    one, other = (
        planted.run(checked_method(kind, settings), clients) for clients in (people, planted.permuted(people, order))
    )
    assert len(set(one.labels)) == 2
    assert planted.same_partition(other.labels, [one.labels[old] for old in order])
