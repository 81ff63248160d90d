"""Models of a finished run that clusters clients, as torch modules."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from fedkin.core import FedkinError
from fedkin.core.tasks import trusted_packages
from fedkin.data.dataset import are_whole
from fedkin.data.population import client_name
from fedkin.data.preparation import Preparation
from fedkin.experiment.outputs import load_found
from fedkin.nn.modules import Classifier


@dataclass(frozen=True)
class ClusterModels:
    """Models of the clusters of clients that a run found, and how samples become what they take.

    Attributes
    ----------
    models : list of nn.Module
        One per cluster, in evaluation mode, from prepared samples to logits ``(n, classes)``.
    preparation : Preparation
        ``preparation.apply(x)`` prepares samples, a DataFrame, an array, a tensor or a file, and returns the tensor
        that a model takes.
    classes : list of int or list of str
        The classes, in the order of logits: integers if all are, as `classes_` of estimators has them, else names.
    clusters : dict of str to int
        The position in `models` of each client's model, by the client's name, or its number where clients have no
        names. A client whose cluster is not known is absent.
    """

    models: list[nn.Module]
    preparation: Preparation
    classes: list[int] | list[str]
    clusters: dict[str, int]


def load_models(folder: str | Path, packages: Sequence[str] = ()) -> ClusterModels:
    """Load the models of a run's folder, or of a site's share of one, as torch modules.

    Parameters
    ----------
    folder : str or Path
        The folder that ``fedkin run`` wrote, with its ``result.json`` and ``models.safetensors``; or a site's
        ``results/RUN``, which has one model.
    packages : sequence of str
        Packages beside fedkin that the run's module may be imported from, where it is a dotted path. Importing runs
        their code.

    Returns
    -------
    ClusterModels

    Raises
    ------
    FedkinError
        If there is no result, it is damaged or has no models, or its module is of another package.

    Examples
    --------
    >>> import fedkin
    >>> found = fedkin.load_models("runs/ocfl")  # doctest: +SKIP
    >>> logits = found.models[0](found.preparation.apply(x))  # doctest: +SKIP
    """
    why = "so it is not imported; packages=[...] allows another package that you trust"
    with trusted_packages(["fedkin", *packages], why):
        found = load_found(Path(folder).expanduser())
        if found.method.traits.clusters != "clients":
            raise FedkinError(
                f"Method '{found.name}' of {folder} clusters samples and has no models of clusters; `fedkin predict` "
                "finds the clusters of new samples."
            )
        if not found.result["module"]:
            raise FedkinError(f"Clients of {folder} had no labels, so there are clusters but no models.")
        classifier = Classifier.of(found.result["module"])
        models = [classifier.module(model) for model in found.result["models"]]
    names = found.classes[: classifier.classes] or [str(one) for one in range(classifier.classes)]
    labels = enumerate(found.result["labels"].tolist())
    return ClusterModels(
        models,
        dataclasses.replace(found.preparation, files=found.how_it_was_read()),
        [int(name) for name in names] if are_whole(names) else names,
        {client_name(at, found.clients): cluster for at, cluster in labels if cluster >= 0},
    )
