"""The checkpoint a run resumes from.

A checkpoint is one safetensors file: tensors as tensors, everything else as JSON in its header. Being one file, it is
replaced in one move, so a run killed at any moment finds the last complete one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_origin, get_type_hints

from fedkin.core import Federation, FedkinError, State
from fedkin.core.payload import load_tree, owned
from fedkin.engines.local import LocalFederation

S = TypeVar("S", bound=State)
FORMAT = 2
"""Format of a run's folder; it grows when a version of fedkin cannot use what earlier ones wrote."""


def snapshot(fed: Federation, state: State) -> dict[str, Any]:
    """Return everything a run needs to resume, as a tree that shares no memory with it (`owned`).

    That is the method's state, the federation's part and, with the local engine, what the clients remember;
    other clients keep that on their own disks.
    """
    clients = fed.clients if isinstance(fed, LocalFederation) else {}
    memories = {str(client): dict(each.state) for client, each in clients.items()}
    return dict(owned({"format": FORMAT, "state": state.tree(), **fed.tree(), "clients": memories}))


def load_checkpoint(path: Path) -> dict[str, Any] | None:
    """Load the checkpoint at `path` as a tree; ``None`` if the file does not exist.

    Raises FedkinError if the file was written by a version of fedkin whose folders are of another format, or is none of
    fedkin's.
    """
    if not path.exists():
        return None
    tree: dict[str, Any] = load_tree(path)
    check_format(path.parent, tree)
    return tree


def check_format(folder: Path, tree: Mapping[str, Any]) -> None:
    """Raise FedkinError if `tree`, the content of a file in `folder`, is not of this version's format."""
    if (number := tree.get("format", 1)) != FORMAT:
        raise FedkinError(
            f"{folder} was written by another version of fedkin (format {number}; this version needs {FORMAT}); use "
            "the version that wrote it, or run the experiment again."
        )


def restore_checkpoint(fed: Federation, state_type: type[S], tree: Mapping[str, Any]) -> S:
    """Restore `fed` to the snapshot `tree`, and return the method's state; both take over the tree's tensors.

    A run calls it after every step, not only when it resumes. Each step then starts from exactly what a checkpoint
    gives back, including order of keys and memory layout, and resuming is exact by construction.
    """
    fed.restore(tree)
    if isinstance(fed, LocalFederation):
        for number, client in fed.clients.items():
            client.state = tree["clients"][str(number)]
    return restore(state_type, tree["state"])


def restore(state_type: type[S], tree: Mapping[str, Any]) -> S:
    """Build a state of class `state_type` from the tree of its fields.

    Raises FedkinError if the fields are not those of `state_type`, as after a change of version.
    """
    names = {field.name for field in dataclasses.fields(state_type)}
    if names != tree.keys():
        raise FedkinError(
            f"The checkpoint's fields differ from {state_type.__name__}'s in {', '.join(sorted(names ^ tree.keys()))}; "
            "resume it with the version of fedkin that wrote it."
        )
    kinds = get_type_hints(state_type)
    values: dict[str, Any] = {
        name: tuple(value) if get_origin(kinds[name]) is tuple else value for name, value in tree.items()
    }
    return state_type(**values)
