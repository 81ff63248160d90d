"""Rotated images: node i sees all images turned by 0, 90, 180 or 270 degrees, in turns."""

from __future__ import annotations

from functools import lru_cache

from torch import Tensor

from fedkin.data.population import Population
from fedkin.experiment.config import load_config


def partition(data: str, nodes: int, at: int, seed: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return training and test part of node `at`: images ``(n, channels, height, width)`` and labels ``(n,)``."""
    population = _population(data, nodes, seed)
    client = population.clients[at]
    assert client.y is not None
    return (client.x, client.y), population.tests[at]


@lru_cache(maxsize=1)
def _population(data: str, nodes: int, seed: int) -> Population:
    scenario = ["simulation.scenario=rotation", f"simulation.clients={nodes}"]
    built: Population = load_config("ifca", [f"data.source={data}", *scenario]).scenario.build(seed)
    return built
