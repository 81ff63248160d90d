"""Estimators in the style of scikit-learn, whose ``fit`` takes several clients' data instead of one table.

An estimator's parameters are the options of its method, with the same names and defaults, plus those of
`EstimatorOptions`. A new one needs a line and a docstring, in `sample_estimators` if it
clusters the samples of unlabelled clients, in `client_estimators` if it clusters clients with labelled ones.
"""

from fedkin.estimators.client_clusterer import ClientClusterer
from fedkin.estimators.client_estimators import (
    CFLGP,
    FLUX,
    IFCA,
    LADD,
    OCFL,
    PACFL,
    CLoVE,
    Embedding,
    FedAvg,
    FedDrift,
    FedGroup,
    FedOpt,
    FedRC,
    FeSEM,
    GradientLoss,
    Hierarchical,
    Local,
    Sattler,
)
from fedkin.estimators.fedcref_estimator import FedCRef
from fedkin.estimators.kingraph_estimator import KinGraph
from fedkin.estimators.mufc_estimator import MUFC
from fedkin.estimators.sample_clusterer import LatentClusterer, SampleClusterer
from fedkin.estimators.sample_estimators import (
    AFCL,
    CCFC,
    DEC,
    FFCM,
    PPFCGAN,
    SCFC,
    SDAFC,
    UIFCA,
    FedDPKMeans,
    FuzzyCMeans,
    KFed,
    KMeans,
)

__all__ = [
    "AFCL",
    "CCFC",
    "CFLGP",
    "DEC",
    "FFCM",
    "FLUX",
    "IFCA",
    "LADD",
    "MUFC",
    "OCFL",
    "PACFL",
    "PPFCGAN",
    "SCFC",
    "SDAFC",
    "UIFCA",
    "CLoVE",
    "ClientClusterer",
    "Embedding",
    "FeSEM",
    "FedAvg",
    "FedCRef",
    "FedDPKMeans",
    "FedDrift",
    "FedGroup",
    "FedOpt",
    "FedRC",
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
