"""Reopen a finished run: copy its folder with another configuration and an earlier checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.trees import owned, save_tree
from fedkin.experiment.checkpoint import load_checkpoint
from fedkin.experiment.config import Config
from fedkin.experiment.run_folder import CHECKPOINT, is_finished, write_config

LeftOut = Callable[[str, list[str]], set[str]]
"""Given a folder and the names in it, those that are not copied; see `shutil.copytree`."""


def check_empty(folder: Path, remedy: str = "give another --out") -> None:
    """Check that a folder is empty or absent; `remedy` ends the error message."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FedkinError(f"{folder} is not an empty folder; {remedy}.")


def finished_checkpoint(folder: Path) -> dict[str, Any]:
    """Load the last checkpoint of a finished run.

    Raises FedkinError if the run has not finished, or the checkpoint is absent or of another version.
    """
    if not is_finished(folder):
        raise FedkinError(f"{folder} has not finished; `fedkin resume {folder}` finishes it.")
    checkpoint = load_checkpoint(folder / CHECKPOINT)
    if checkpoint is None:
        raise FedkinError(f"{folder} is damaged: {CHECKPOINT} is absent.")
    return checkpoint


def reopen(folder: Path, out: Path, config: Config, checkpoint: Mapping[str, Any], left_out: LeftOut) -> None:
    """Copy the run in `folder` to `out` with another configuration and checkpoint; on an error `out` is left as it was.

    `folder` stays as it is; `out` is empty or absent. `checkpoint` is as `fedkin.experiment.checkpoint.load_checkpoint`
    gives it. `left_out` returns the names that are not copied, as the `ignore` of `shutil.copytree`.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(mkdtemp(prefix=f".{out.name}.", suffix=".partial", dir=out.parent))
    try:
        shutil.copytree(folder, partial, ignore=left_out, dirs_exist_ok=True)
        write_config(partial, config)
        save_tree(partial / CHECKPOINT, owned(dict(checkpoint)))
        partial.replace(out)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, shutil.Error):  # one entry for each file that could not be copied
            path, _, reason = error.args[0][0]
            raise FedkinError(f"{path} cannot be copied ({reason}).") from error
        raise
