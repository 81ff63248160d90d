"""Strategies for people who have a Flower app: put one in place of ``FedAvg`` and get groups, and a model for each.

They need the extra ``fedkin[flower]``. See docs/flower-strategies.md.
"""

from importlib.util import find_spec

if find_spec("flwr") is None:
    raise ImportError("fedkin.flower needs Flower, which is not installed; `pip install 'fedkin[flower]'` brings it.")

from fedkin.flower.query import describes
from fedkin.flower.result import GroupResult
from fedkin.flower.strategies import IFCA, LADD, OCFL, Embedding, FedAvg, FedOpt, Hierarchical, Sattler
from fedkin.flower.strategy import GroupStrategy

__all__ = [
    "IFCA",
    "LADD",
    "OCFL",
    "Embedding",
    "FedAvg",
    "FedOpt",
    "GroupResult",
    "GroupStrategy",
    "Hierarchical",
    "Sattler",
    "describes",
]
