"""fedkin: federated clustering, which discovers clusters of clients or samples without moving the data."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedkin.core.progress import Callback
    from fedkin.estimators import (
        AFCL,
        CCFC,
        CFLGP,
        DEC,
        FFCM,
        FLUX,
        IFCA,
        LADD,
        MUFC,
        OCFL,
        PACFL,
        PPFCGAN,
        SCFC,
        SDAFC,
        UIFCA,
        CLoVE,
        Embedding,
        FedAvg,
        FedCRef,
        FedDPKMeans,
        FedDrift,
        FedGroup,
        FedOpt,
        FedRC,
        FeSEM,
        FuzzyCMeans,
        GradientLoss,
        Hierarchical,
        KFed,
        KinGraph,
        KMeans,
        Local,
        Sattler,
    )
    from fedkin.experiment.early_stopping import EarlyStopping
    from fedkin.studies.compare.compare_arrays import compare

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
    "EarlyStopping",
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
    "Local",
    "Sattler",
    "__version__",
    "compare",
]


def __getattr__(name: str) -> Any:
    """Estimators and more are imported when first asked for, so that ``fedkin --help`` need not wait for torch."""
    if name == "compare":
        from fedkin.studies.compare.compare_arrays import compare

        return compare
    if name == "Callback":
        from fedkin.core.progress import Callback

        return Callback
    if name == "EarlyStopping":
        from fedkin.experiment.early_stopping import EarlyStopping

        return EarlyStopping
    if name in __all__:
        from fedkin import estimators

        return getattr(estimators, name)
    from fedkin.core.errors import nearest

    near = nearest(name, __all__)
    hint = f"; did you mean '{near}'?" if near and not name.startswith("_") else ""
    raise AttributeError(f"module 'fedkin' has no attribute '{name}'{hint}", name=name)


def __dir__() -> list[str]:
    return sorted(__all__)
