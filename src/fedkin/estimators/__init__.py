"""Methods in scikit-learn's clothes: ``fit`` takes a list of clients instead of one table.

An estimator's parameters are its method's hyper-parameters, with the same names and defaults, plus `scaling`,
`random_state` and `verbose`. A new method needs three lines and a docstring, in `samples` if it clusters the samples of
unlabelled clients, in `clients` if it clusters clients that hold labelled ones, by one message each in `one_shot`.
"""

from fedkin.estimators.centroid_estimators import FFCM, FuzzyCMeans, KFed, KMeans
from fedkin.estimators.client_clusterer import (
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
from fedkin.estimators.deep_estimators import CCFC, DEC, PPFCGAN, SCFC, SDAFC, UIFCA
from fedkin.estimators.kingraph_estimator import KinGraph
from fedkin.estimators.one_shot_estimators import LADD, Embedding
from fedkin.estimators.sample_clusterer import FedCRef, LatentClusterer, SampleClusterer

__all__ = [
    "CCFC",
    "DEC",
    "FFCM",
    "IFCA",
    "LADD",
    "OCFL",
    "PPFCGAN",
    "SCFC",
    "SDAFC",
    "UIFCA",
    "ClientClusterer",
    "Embedding",
    "FedAvg",
    "FedCRef",
    "FedOpt",
    "FuzzyCMeans",
    "GradientLoss",
    "Hierarchical",
    "KFed",
    "KMeans",
    "KinGraph",
    "LatentClusterer",
    "Local",
    "SampleClusterer",
    "Sattler",
]
