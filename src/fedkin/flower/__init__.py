"""Flower strategies that cluster nodes: replace Flower's ``FedAvg`` by one to get clusters and a model for each.

They need the extra ``fedkin[flower]``. See docs/flower-strategies.md. The engine that carries fedkin's own
tasks over Flower is in `fedkin.engines.flower_engine`.
"""

from fedkin.engines.flower_engine import importing_flower

with importing_flower():
    from fedkin.flower.grid_federation import report_name as report_name
    from fedkin.flower.strategies import CLoVEStrategy as CLoVEStrategy
    from fedkin.flower.strategies import ClusterResult as ClusterResult
    from fedkin.flower.strategies import ClusterStrategy as ClusterStrategy
    from fedkin.flower.strategies import FedAvgStrategy as FedAvgStrategy
    from fedkin.flower.strategies import FedGroupStrategy as FedGroupStrategy
    from fedkin.flower.strategies import FedOptStrategy as FedOptStrategy
    from fedkin.flower.strategies import FeSEMStrategy as FeSEMStrategy
    from fedkin.flower.strategies import HierarchicalStrategy as HierarchicalStrategy
    from fedkin.flower.strategies import IFCAStrategy as IFCAStrategy
    from fedkin.flower.strategies import OCFLStrategy as OCFLStrategy
    from fedkin.flower.strategies import SattlerStrategy as SattlerStrategy
