"""Cut the clusters of a finished run again, coarser or finer, and write them to a new folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.files import LOCK
from fedkin.core.method import CanCut
from fedkin.core.progress import Progress
from fedkin.experiment.checkpoint import restore
from fedkin.experiment.run import RunOutcome, resume
from fedkin.experiment.run_folder import (
    LEDGER,
    REPORT,
    RESULTS,
    SUMS,
    empty_folder,
    finished_checkpoint,
    reopen,
    run_config,
)
from fedkin.experiment.tracking import NOTES


def cut(
    folder: Path,
    out: Path,
    n_clusters: int | None = None,
    resolution: float | None = None,
    progress: Progress | None = None,
) -> RunOutcome | None:
    """Cut the clusters of the run in `folder` again, and write them to `out` as a new run.

    Clients are sent their new clusters and asked for nothing. With the same number of clusters, `out` holds the labels
    of a run that was given it from the start. `folder` stays as it is.

    Parameters
    ----------
    folder : Path
        A finished run of a method that cuts again, see `fedkin.core.Method`.
    out : Path
        Empty or absent.
    n_clusters : int, optional
        Clusters to find, at least 1.
    resolution : float, optional
        Resolution of the clusters instead of their number, greater than 0.
    progress : Progress, optional
        Shows the progress.

    Returns
    -------
    RunOutcome or None
        ``None`` of a real federation: its server sends the clusters when it runs the experiment, with the same
        `n_clusters` or `resolution`, into `out`.

    Raises
    ------
    FedkinError
        If `folder` holds no finished run of such a method, not one of both numbers is given, there cannot be so many
        clusters, or `out` is not empty.
    """
    if (n_clusters is None) == (resolution is None):
        raise FedkinError("Give either a number of clusters, as --clusters 5, or a resolution, as --resolution 0.5.")
    if not isinstance(run_config(folder).method, CanCut):
        raise FedkinError(
            f"{folder} cannot be cut again: its method keeps no clusters of clusters. Run it with another number of "
            "clusters instead."
        )
    checkpoint = finished_checkpoint(folder)
    values = {"n_clusters": n_clusters, "resolution": resolution}
    config = run_config(folder, [f"method.{key}={'auto' if value is None else value}" for key, value in values.items()])
    method: Any = config.method
    state = method.before_cut(restore(method.state_type, checkpoint["state"]))  # as it was before its last step
    # All is copied but the results of the run, and what tracking tools know of it.
    left_out = shutil.ignore_patterns(*RESULTS[:-1], "labels", REPORT, SUMS, NOTES, LOCK, "*.partial")
    with empty_folder(out):
        reopen(folder, out, config, {**checkpoint, "state": state.tree()}, left_out)
        return None if (out / LEDGER).is_file() else resume(out, progress)
