"""Flower strategies that cluster nodes: replace Flower's ``FedAvg`` by one to get clusters and a model for each.

They need the extra ``fedkin[flower]``. See docs/flower-strategies.md. The engine that carries fedkin's own
tasks over Flower is in `fedkin.engines.flower_engine`.
"""

from fedkin.engines.flower_engine import importing_flower

with importing_flower():
    from fedkin.flower.grid_federation import report_name
    from fedkin.flower.result import ClusterResult
    from fedkin.flower.strategies import (
        CLoVEStrategy,
        ClusterStrategy,
        FedAvgStrategy,
        FedGroupStrategy,
        FedOptStrategy,
        FeSEMStrategy,
        HierarchicalStrategy,
        IFCAStrategy,
        OCFLStrategy,
        SattlerStrategy,
    )

__all__ = [
    "CLoVEStrategy",
    "ClusterResult",
    "ClusterStrategy",
    "FeSEMStrategy",
    "FedAvgStrategy",
    "FedGroupStrategy",
    "FedOptStrategy",
    "HierarchicalStrategy",
    "IFCAStrategy",
    "OCFLStrategy",
    "SattlerStrategy",
    "report_name",
]
