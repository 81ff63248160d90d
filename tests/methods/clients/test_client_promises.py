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
