"""Strategies for Flower apps: put one in place of Flower's ``FedAvg`` and get clusters of nodes, and a model for each.

They need the extra ``fedkin[flower]``. See docs/flower-strategies.md.
"""

from importlib.util import find_spec

if find_spec("flwr") is None:
    raise ImportError("fedkin.flower needs Flower, which is not installed; `pip install 'fedkin[flower]'` brings it.")

from fedkin.flower.query import describes
from fedkin.flower.strategies import (
    EmbeddingStrategy,
    FedAvgStrategy,
    FedOptStrategy,
    HierarchicalStrategy,
    IFCAStrategy,
    LADDStrategy,
    OCFLStrategy,
    SattlerStrategy,
)
from fedkin.flower.strategy import ClusterStrategy
from fedkin.flower.strategy_result import ClusterResult

__all__ = [
    "ClusterResult",
    "ClusterStrategy",
    "EmbeddingStrategy",
    "FedAvgStrategy",
    "FedOptStrategy",
    "HierarchicalStrategy",
    "IFCAStrategy",
    "LADDStrategy",
    "OCFLStrategy",
    "SattlerStrategy",
    "describes",
]
