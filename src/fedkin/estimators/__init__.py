"""Methods in scikit-learn's clothes: ``fit`` takes a list of clients instead of one table.

An estimator's parameters are its method's hyper-parameters, with the same names and defaults, plus `scaling`,
`random_state` and `verbose`. A new method needs three lines and a docstring, in `samples` if it clusters the samples of
unlabelled sites, in `clients` if it groups clients that hold labelled ones, by one message each in `one_shot`.
"""

from fedkin.estimators.clients import (
    IFCA,
    OCFL,
    ClientClusterer,
    FedAvg,
    FedOpt,
    GradientLoss,
    Hierarchical,
    Local,
    Sattler,
)
from fedkin.estimators.one_shot import LADD, Embedding
from fedkin.estimators.samples import FedCRef, SiteClusterer

__all__ = [
    "IFCA",
    "LADD",
    "OCFL",
    "ClientClusterer",
    "Embedding",
    "FedAvg",
    "FedCRef",
    "FedOpt",
    "GradientLoss",
    "Hierarchical",
    "Local",
    "Sattler",
    "SiteClusterer",
]
