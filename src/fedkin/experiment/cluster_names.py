"""Names of a run's clusters, which users give: kept in ``cluster_names.json``, shown wherever a cluster's number is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.core import FedkinError
from fedkin.core.files import folder_lock, write_atomically
from fedkin.experiment.run_folder import (
    CLUSTER_NAMES,
    REPORT,
    is_finished,
    load_found,
    read_labels,
    read_names,
)
from fedkin.experiment.terminal_tables import table_text
from fedkin.report.words import suggestions

_LONGEST = 60
"""Letters of a name, which stands in headings of tables."""


def checked_names(names: Mapping[Any, Any], n_clusters: int, before: Mapping[int, str] | None = None) -> dict[int, str]:
    """Return the names of clusters after a change; an empty name takes one away.

    `names` are by number, of which `n_clusters` exist, and replace those of `before`. Raises FedkinError if a cluster
    does not exist, a name is no line of up to 60 letters, or two clusters would have the same.
    """
    merged = dict(before or {})
    for cluster, name in names.items():
        if isinstance(cluster, bool) or not isinstance(cluster, int | np.integer) or not 0 <= cluster < n_clusters:
            raise FedkinError(f"There is no cluster {cluster!r}; allowed: 0 to {n_clusters - 1}.")
        if not isinstance(name, str) or not name.isprintable() or len(name.strip()) > _LONGEST:
            raise FedkinError(f"The name of cluster {cluster} should be one line of at most {_LONGEST} letters.")
        merged[int(cluster)] = name.strip()
    merged = {cluster: merged[cluster] for cluster in sorted(merged) if merged[cluster]}
    if len({name.casefold() for name in merged.values()}) < len(merged):
        raise FedkinError("Two clusters would have the same name; give each its own.")
    return merged


def name_clusters(folder: Path, pairs: Sequence[str]) -> dict[int, str]:
    """Name clusters of the finished run in `folder` by texts such as ``0=frail``; an empty name takes one away.

    The page shows them. Returns all names. Raises FedkinError if the run has not finished, or a text or
    a name cannot be used; nothing is written then.
    """
    if not is_finished(folder):
        raise FedkinError(f"{folder} has not finished; `fedkin resume {folder}` finishes it.")
    changes = {}
    for pair in pairs:
        number, sign, name = pair.partition("=")
        if not sign or not number.strip().isdecimal():
            raise FedkinError(f"'{pair}' is not NUMBER=NAME, such as '0=frail'.")
        changes[int(number)] = name
    with folder_lock(folder):
        names = checked_names(changes, int(load_found(folder).result["n_clusters"]), read_names(folder))
        write_names(folder, names)
    return names


def write_names(folder: Path, names: Mapping[int, str]) -> None:
    """Write the names of a run's clusters, into its page, too, if it has one yet."""
    tree = {str(cluster): name for cluster, name in names.items()}
    write_atomically(folder / CLUSTER_NAMES, json.dumps(tree, indent=2, ensure_ascii=False) + "\n")
    if (folder / REPORT).is_file():
        from fedkin.report.page import give_names

        give_names(folder / REPORT, names)


def cluster_list(folder: Path) -> list[dict[str, Any]]:
    """Return the ``cluster``, ``members``, ``name`` and ``suggested`` name of each cluster of a finished run.

    Members are samples or clients. What is not known is ``None``.
    """
    saved, names = load_found(folder), read_names(folder)
    count, profile, words = int(saved.result["n_clusters"]), saved.profile, saved.words
    suggested = [", ".join(each[:2]) for each in words] if any(words) else suggestions(profile) if profile else []
    labels = [each.to_numpy() for each in read_labels(folder).values()]
    sizes = [None] * count if profile is None else profile.samples.tolist()
    sizes = np.bincount(np.concatenate(labels) + 1, minlength=count + 1)[1:].tolist() if labels else sizes
    suggested += [""] * (count - len(suggested))
    return [
        {"cluster": i, "members": sizes[i], "name": names.get(i), "suggested": suggested[i] or None}
        for i in range(count)
    ]


def list_text(folder: Path) -> str:
    """Return the clusters of a finished run as a table: numbers, members, names, and names that might suit."""
    rows = [["cluster", "members", "name", "suggested"]]
    rows += [[*("" if value is None else str(value) for value in row.values())] for row in cluster_list(folder)]
    return table_text(rows, left=(2, 3))
