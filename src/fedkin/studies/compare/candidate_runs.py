"""Runs of a comparison: ordinary run folders, one per candidate and seed."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.clustering.metrics import Labels
from fedkin.core import FedkinError
from fedkin.core.files import check_regular
from fedkin.experiment.checksums import check_sum
from fedkin.experiment.label_files import label_file
from fedkin.experiment.outputs import RESULT
from fedkin.experiment.run_folder import CHECKPOINT, RECORDS, read_lines
from fedkin.studies.compare.candidates import Candidate
from fedkin.studies.costs import costs_of


@dataclass(frozen=True, order=True)
class CandidateRun:
    """Run of a candidate with one seed; the data are partitioned by another one."""

    candidate: Candidate
    seed: int

    def folder(self, out: Path) -> Path:
        """Return the run's folder within a comparison's folder."""
        return out / "runs" / self.candidate.folder / f"seed-{self.seed}"


@dataclass(frozen=True)
class Done:
    """Clusters and costs of a finished run.

    `labels`, int64 ``(n,)``, are the clusters of all samples of all clients in order, or of every client. `metrics` are
    those of the last record: agreement with the truth, if any, and accuracy on clients' own tests. `bytes` were sent
    and received; `seconds` is the computing time of the method, without evaluation.
    """

    labels: Labels
    metrics: dict[str, Any]
    bytes: int
    seconds: float

    @property
    def clusters(self) -> int:
        """Number of clusters that have a member."""
        return len(np.unique(self.labels[self.labels >= 0]))


def steps_of(folder: Path) -> int:
    """Return the number of steps that a run has made."""
    return len(read_lines(folder / RECORDS)) if (folder / CHECKPOINT).exists() else 0


def outcome(folder: Path, sizes: Sequence[int]) -> Done:
    """Collect the clusters and costs of the finished run in `folder`.

    `sizes` are the numbers of samples of the clients; those of clients that never took part get no cluster. Raises
    FedkinError if its files cannot be read.
    """
    try:
        last = read_lines(folder / RECORDS)[-1]
        labels = _clusters(folder, sizes)
    except (FedkinError, OSError, ValueError, KeyError, IndexError) as error:
        raise FedkinError(
            f"The run in {folder} cannot be read ({error}); remove the folder to make it again."
        ) from error
    cost = costs_of([folder])[0].total
    return Done(labels, last["metrics"], cost.both, cost.seconds or 0.0)


def _clusters(folder: Path, sizes: Sequence[int]) -> Labels:
    """Return the clusters of all clients, or of all samples by client and row; -1 for none."""
    if (folder / "clients.csv").is_file():
        return _column(folder, "clients.csv")
    check_regular(folder / RESULT)
    check_sum(folder, RESULT)
    names = json.loads((folder / RESULT).read_text(encoding="utf-8"))["clients"]
    found = []
    for client, size in enumerate(sizes):
        path = label_file(folder, client, names)
        found.append(_column(folder, f"labels/{path.name}") if path.is_file() else np.full(size, -1, dtype=np.int64))
        if len(found[-1]) != size:
            raise ValueError(f"{path} has {len(found[-1])} rows for {size} samples")
    return np.concatenate(found)


def clusters_with_members(folder: Path) -> int | None:
    """Count the clusters of samples in the finished run in `folder`; ``None`` if it clusters no samples.

    Raises FedkinError if its files cannot be read.
    """
    files = sorted((folder / "labels").glob("*.csv"))
    try:
        found = {int(cluster) for path in files for cluster in np.unique(_column(folder, f"labels/{path.name}"))}
    except (OSError, ValueError, KeyError) as error:
        raise FedkinError(f"The labels in {folder} cannot be read ({error}).") from error
    return len(found - {-1}) if files else None


def _column(folder: Path, name: str) -> Labels:
    check_regular(folder / name)
    check_sum(folder, name)
    with (folder / name).open(newline="", encoding="utf-8") as file:
        return np.array([int(row["cluster"]) for row in csv.DictReader(file)], dtype=np.int64)
