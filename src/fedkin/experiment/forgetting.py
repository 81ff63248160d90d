"""Forget clients: remove their contribution from a finished run, exactly where the method can, else by retraining."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.files import folder_lock
from fedkin.core.progress import Progress
from fedkin.core.trees import save_tree
from fedkin.data.population import Population
from fedkin.data.preparing.preparation import Preparation
from fedkin.engines.local import LocalFederation
from fedkin.experiment.checksums import write_sums
from fedkin.experiment.forgetting_certificate import certificates_of, hashes_of, not_covered, remains, write_certificate
from fedkin.experiment.forgetting_plan import ForgettingPlan
from fedkin.experiment.outputs import RESULTS, load_found
from fedkin.experiment.reopening import check_empty, reopen
from fedkin.experiment.run import execute, resume
from fedkin.experiment.run_folder import CHECKPOINT, CONFIG, LEDGER, RECORDS, SITES, TIMING
from fedkin.experiment.run_loop import RunOutcome, prepare


def forget(plan: ForgettingPlan, out: Path | None, progress: Progress | None = None) -> RunOutcome:
    """Write a run without some clients to `out`, as a new run with a certificate.

    Where the method stores each client's contribution separately, clusters are formed again from those of the others
    (`Method.without`), and the labels equal those of a run in which the forgotten clients sent nothing. Otherwise the
    run is repeated without them, from the last checkpoint before they took part or from the start; its files equal
    those of a run with ``engine.forgotten``.

    Parameters
    ----------
    plan : ForgettingPlan
        See `plan_forgetting`.
    out : Path or None
        Empty or absent; ``None`` puts the new run in the place of the old one.
    progress : Progress, optional
        Shows the progress.

    Returns
    -------
    RunOutcome
        For a real federation, its sites are not contacted: they get their new clusters when the server runs the
        experiment of `out`, into `out`.

    Raises
    ------
    FedkinError
        If `out` is not empty, or as running the experiment does.
    """
    folder = plan.folder
    if out is not None:
        check_empty(out)
    with folder_lock(folder) if out is None else nullcontext():
        before, earlier = hashes_of(folder), certificates_of(folder)
        target = out or Path(mkdtemp(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent))
        try:
            outcome = _run(plan, target, progress or Progress())
            write_certificate(target, earlier, _certificate(plan, target, before, out is None))
        except BaseException as error:
            if out is None or isinstance(error, FedkinError):
                shutil.rmtree(target, ignore_errors=True)
            raise
        if out is not None:
            return outcome
        old = folder.with_name(f".{folder.name}.old.partial")
        folder.replace(old)
        target.replace(folder)
        shutil.rmtree(old)
    return RunOutcome(folder, outcome.state, outcome.records, outcome.config, outcome.clients)


def _run(plan: ForgettingPlan, out: Path, progress: Progress) -> RunOutcome:
    """Repeat the run without the forgotten clients."""
    if plan.checkpoint is None:
        return execute(plan.config, out, progress)
    forgotten = {str(at) for at in plan.clients}
    files = {RECORDS, TIMING, LEDGER, SITES}

    def left_out(place: str, names: list[str]) -> set[str]:
        return {name for name in names if (name not in files if Path(place) == plan.folder else name in forgotten)}

    reopen(plan.folder, out, plan.config, plan.checkpoint, left_out)
    if not (out / LEDGER).is_file():
        return resume(out, progress)
    return _without_sites(plan, out, progress)


def _without_sites(plan: ForgettingPlan, out: Path, progress: Progress) -> RunOutcome:
    """Form the clusters of a real federation's run without its sites, whose last step the server does later."""
    found = load_found(plan.folder)
    population = Population([], None, found.classes, names=found.clients).forgetting(plan.config.engine.forgotten)
    fed = LocalFederation([], plan.config.seed)
    outcome = prepare(plan.config, out, population, fed, progress).finish()
    assert plan.checkpoint is not None
    save_tree(out / CHECKPOINT, plan.checkpoint)
    write_sums(out, [CONFIG, *RESULTS])
    return outcome


def _certificate(plan: ForgettingPlan, out: Path, before: dict[str, str], replaced: bool) -> dict[str, Any]:
    """Build the certificate of a forgetting, without the hashes of the new files."""
    preparation = None
    if plan.checkpoint is not None and plan.way == "exact":
        preparation = Preparation.from_tree(plan.checkpoint["preparation"])
    return {
        "method": plan.config.method_name,
        "clients": [{"position": at, "name": plan.names[at] if plan.names else None} for at in plan.clients],
        "way": plan.way,
        "kept_steps": plan.begins,
        "steps_done_again": plan.steps,
        "others_asked_again": plan.way == "retrained",
        "still_hold": remains(out, plan.config, plan.clients, plan.names, plan.begins, preparation),
        "not_covered": not_covered(plan.folder.name, replaced),
        "before": before,
    }
