"""Flower strategies that cluster nodes: replace Flower's ``FedAvg`` by one to get clusters and a model for each.

They need the extra ``fedkin[flower]``. See docs/flower-strategies.md. The engine that carries fedkin's own
tasks over Flower is in `fedkin.engines.flower_engine`.
"""

from fedkin.engines.flower_engine import importing_flower

with importing_flower():
    from fedkin.flower.query import describes
    from fedkin.flower.result import ClusterResult
    from fedkin.flower.strategies import (
        CFLGPStrategy,
        CLoVEStrategy,
        ClusterStrategy,
        EmbeddingStrategy,
        FedAvgStrategy,
        FedDriftStrategy,
        FedGroupStrategy,
        FedOptStrategy,
        FedRCStrategy,
        FeSEMStrategy,
        FLUXStrategy,
        GradientLossStrategy,
        HierarchicalStrategy,
        IFCAStrategy,
        LADDStrategy,
        OCFLStrategy,
        PACFLStrategy,
        SattlerStrategy,
    )

__all__ = [
    "CFLGPStrategy",
    "CLoVEStrategy",
    "ClusterResult",
    "ClusterStrategy",
    "EmbeddingStrategy",
    "FLUXStrategy",
    "FeSEMStrategy",
    "FedAvgStrategy",
    "FedDriftStrategy",
    "FedGroupStrategy",
    "FedOptStrategy",
    "FedRCStrategy",
    "GradientLossStrategy",
    "HierarchicalStrategy",
    "IFCAStrategy",
    "LADDStrategy",
    "OCFLStrategy",
    "PACFLStrategy",
    "SattlerStrategy",
    "describes",
]
