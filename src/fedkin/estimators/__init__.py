"""Estimators in the style of scikit-learn, whose ``fit`` takes several clients' data instead of one table.

An estimator's parameters are the options of its method, with the same names and defaults, plus those of
`fedkin.estimators.estimator.common_options`. A new one needs a line and a docstring, in `sample_estimators` if it
clusters the samples of unlabelled clients, in `client_estimators` if it clusters clients with labelled ones.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedkin.estimators.client_estimators import ClientClusterer as ClientClusterer
    from fedkin.estimators.sample_estimators import SampleClusterer as SampleClusterer

__all__ = ["ClientClusterer", "SampleClusterer"]


def __getattr__(name: str) -> Any:
    """Import a base when it is first asked for: each file imports the methods of all its estimators."""
    if name not in __all__:
        raise AttributeError(f"module 'fedkin.estimators' has no attribute '{name}'", name=name)
    kind = "client" if name == "ClientClusterer" else "sample"
    return getattr(import_module(f"fedkin.estimators.{kind}_estimators"), name)
