"""Folder of a strategy's run: the checkpoint from which it resumes, and the models of its clusters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.trees import owned, save_tree
from fedkin.experiment.checkpoint import load_checkpoint
from fedkin.flower.strategy_result import ClusterResult

CHECKPOINT, MODELS, REPORT = "checkpoint.safetensors", "models", "report.html"


class StrategyFolder:
    """Folder of a run with its last checkpoint, and the model of each cluster after the last round.

    `facts` are the settings in which a run must agree with the checkpoint that it resumes from, as plain values. `last`
    is the checkpoint that the folder held before, if any. Raises FedkinError if the folder holds another run.
    """

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        self.path, self.facts = path, owned(dict(facts))
        self.last = load_checkpoint(path / CHECKPOINT)
        if self.last is None:
            return
        there = self.last.get("facts", {})
        for name, value in sorted(self.facts.items(), key=lambda fact: fact[0] != "strategy"):  # that says most
            if there.get(name) != value:
                raise FedkinError(
                    f"{path} holds another run: {name} {_shown(there.get(name))} there, and {_shown(value)} here; "
                    "give another folder."
                )

    def keep(self, tree: Mapping[str, Any], result: ClusterResult) -> None:
        """Write the clusters' models, then the checkpoint."""
        result.save(self.path / MODELS)
        save_tree(self.path / CHECKPOINT, {**tree, "facts": self.facts})


def _shown(value: Any) -> str:
    text = repr(value)
    return f"is {text}" if len(text) <= 60 else "is something else"
