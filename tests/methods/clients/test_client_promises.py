"""What every method that clusters clients promises, whatever its algorithm."""

from pathlib import Path
from typing import Any

import pytest

import pictures
import planted
import spoiled
from fedkin.core.progress import Callback
from fedkin.engines.local import LocalFederation
from fedkin.experiment import registry
from fedkin.experiment.config import checked_method, load_config
from fedkin.experiment.run import execute, resume

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


class StopsAfter(Callback):
    """Ends a run by an error after so many steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self, line: Any, timing: Any) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("name", "steps", "more"),
    [("flux", 1, ["method.warm_up=2"]), ("flux", 3, ["method.warm_up=2"]), ("feddrift", 3, ["method.period=2"])],
)
def test_resumed_it_goes_on_as_if_never_stopped(name, steps, more, tmp_path: Path):
    """In a federation that drifts meanwhile, with what clients remember."""
    settings = ["scenario.name=drift-swap", "scenario.clients=8", "scenario.step=3", "method.rounds=6", *more]
    settings += ["data.source=digits", "method.module=perceptron", "method.local_steps=2", "evaluation.every=3"]
    whole = execute(load_config(name, settings), tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        execute(load_config(name, settings), tmp_path / "stopped", callbacks=[StopsAfter(steps)])
    assert len(resume(tmp_path / "stopped").records) == len(whole.records) > steps
    for file in ("models.safetensors", "records.jsonl", "clients.csv", "checkpoint.safetensors"):
        assert (tmp_path / "stopped" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
