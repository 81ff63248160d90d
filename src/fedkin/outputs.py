"""What a run found, as files: labels for every site, the models, and their way back for new samples."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from fedkin import registry
from fedkin.checkpoint import owned
from fedkin.core import Client, FedkinError
from fedkin.core.files import write_atomically
from fedkin.core.payload import pack, unpack
from fedkin.data.load import load
from fedkin.data.scaling import Scaling

RESULT, MODELS = "result.json", "models.safetensors"


def write_labels(folder: Path, clients: Iterable[Client]) -> None:
    """Write ``labels/site-<id>.csv``, the group of every row, for each site that holds one in ``state["groups"]``."""
    for client in clients:
        if (groups := client.state.get("groups")) is not None:
            write_atomically(folder / "labels" / f"site-{client.id}.csv", csv_of_groups(groups))


def csv_of_groups(groups: Tensor) -> str:
    """CSV text with the columns ``row`` and ``group``, from int64 `groups` of shape (n,)."""
    return "row,group\n" + "".join(f"{row},{group}\n" for row, group in enumerate(groups.tolist()))


def write_result(
    folder: Path, method: str, result: dict[str, Any], scaling: Scaling, names: Sequence[str] = ()
) -> None:
    """Write a method's result: ``result.json`` for people and programs, its tensors in ``models.safetensors``.

    With `names`, the sites' own in order of id, ``result.json`` says which site is which.
    """
    tree = {"method": method, "scaling": scaling.tree(), "result": result, "sites": list(names)}
    tensors, text = pack(owned(tree))
    write_atomically(folder / MODELS, save(tensors))
    write_atomically(folder / RESULT, json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n")


def predict(folder: Path, source: str, label: str | None = None) -> Tensor:
    """The groups of new samples, by the models that the run in `folder` found.

    Parameters
    ----------
    folder : Path
        A finished run.
    source : str
        New samples: a name or path, see `fedkin.data.load.load`.
    label : str, optional
        Their column of labels, which is left out, where the usual names do not tell.

    Returns
    -------
    Tensor
        int64, shape (n,).

    Raises
    ------
    FedkinError
        If the run has no result, its method cannot assign new samples, or the data do not fit.
    """
    try:
        tree = unpack(load_file(folder / MODELS), (folder / RESULT).read_text())
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise FedkinError(f"{folder} holds no result to predict with; `fedkin resume` may finish it.") from error
    method = registry.resolve("method", tree["method"])
    if not hasattr(method, "predict"):
        raise FedkinError(f"Method '{tree['method']}' of {folder} does not assign new samples to groups.")
    scaling = Scaling.from_tree(tree["scaling"])
    groups: Tensor = method.predict(tree["result"], scaling.apply(load(source, label).x))
    return groups
