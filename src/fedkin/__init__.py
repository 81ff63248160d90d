"""fedkin: federated clustering, which discovers clusters of clients or samples without moving the data."""

import gc
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedkin.core.errors import FedkinError, FedkinWarning
    from fedkin.core.runner import Callback, EarlyStopping
    from fedkin.data.inputs import client_array
    from fedkin.estimators.client_estimators import (
        CFLGP,
        FLUX,
        IFCA,
        LADD,
        OCFL,
        PACFL,
        CLoVE,
        Declared,
        Ditto,
        Embedding,
        FedAvg,
        FedDAG,
        FedDrift,
        FedGroup,
        FedOpt,
        FedRC,
        FedRep,
        FeSEM,
        GradientLoss,
        Hierarchical,
        Local,
        Sattler,
    )
    from fedkin.estimators.sample_estimators import (
        AFCL,
        CCFC,
        DEC,
        FFCM,
        MUFC,
        PPFCGAN,
        SCFC,
        SDAFC,
        UIFCA,
        FedCRef,
        FedDPKMeans,
        FuzzyCMeans,
        KFed,
        KinGraph,
        KMeans,
    )
    from fedkin.experiment.prediction import load_models
    from fedkin.studies.compare import compare

__version__ = "0.2.0"
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
    "Callback",
    "Declared",
    "Ditto",
    "EarlyStopping",
    "Embedding",
    "FeSEM",
    "FedAvg",
    "FedCRef",
    "FedDAG",
    "FedDPKMeans",
    "FedDrift",
    "FedGroup",
    "FedOpt",
    "FedRC",
    "FedRep",
    "FedkinError",
    "FedkinWarning",
    "FuzzyCMeans",
    "GradientLoss",
    "Hierarchical",
    "KFed",
    "KMeans",
    "KinGraph",
    "Local",
    "Sattler",
    "__version__",
    "client_array",
    "compare",
    "load_models",
]


_FROM = {
    "Callback": "fedkin.core.runner",
    "EarlyStopping": "fedkin.core.runner",
    "FedkinError": "fedkin.core.errors",
    "FedkinWarning": "fedkin.core.errors",
    "client_array": "fedkin.data.inputs",
    "compare": "fedkin.studies.compare",
    "load_models": "fedkin.experiment.prediction",
}
"""The module of each name that is no estimator."""


def __getattr__(name: str) -> Any:
    """Estimators and more are imported when first asked for, so that ``fedkin --help`` need not wait for torch."""
    if name in _FROM:
        return getattr(_imported(_FROM[name]), name)
    if name in __all__:
        from fedkin.experiment.registry import METHODS

        of_samples = any(
            entry.target.endswith(f":{name}Method") for entry in METHODS.values() if ".samples." in entry.target
        )
        kind = "sample" if of_samples else "client"
        return getattr(_imported(f"fedkin.estimators.{kind}_estimators"), name)
    from fedkin.core.errors import suggestion

    hint = "" if name.startswith("_") else f"; {suggestion(name, __all__, 'it has ')}"
    raise AttributeError(f"module 'fedkin' has no attribute '{name}'{hint}", name=name)


def _imported(name: str) -> ModuleType:
    """Import a module without looking for garbage meanwhile: none is made, and all of torch's objects are looked at."""
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        if is_collecting:
            gc.enable()


def __dir__() -> list[str]:
    return sorted(__all__)
