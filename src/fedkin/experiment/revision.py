"""Finished runs made anew in another folder: clusters cut again, or clients forgotten.

A client is forgotten exactly where the method stores each client's contribution separately (`CanForget`), else by a run
without it. ``forgotten.json`` certifies what was done, and what it does not cover.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.files import LOCK, read_json, write_atomically
from fedkin.core.method import CanCut, CanForget
from fedkin.core.payload import save_tree
from fedkin.core.progress import Progress
from fedkin.data.population import Population, client_name, position_of, short_names
from fedkin.data.preparation import Preparation
from fedkin.engines.local import LocalFederation
from fedkin.experiment.config import Config
from fedkin.experiment.outputs import load_found
from fedkin.experiment.run import Run, RunOutcome, execute, resume
from fedkin.experiment.run_folder import (
    CHECKPOINT,
    CLIENT_FOLDERS,
    CONFIG,
    LEDGER,
    MODELS,
    RECORDS,
    REPORT,
    RESULT,
    RESULTS,
    SUMS,
    TIMING,
    empty_folder,
    finished_checkpoint,
    reopen,
    restore,
    run_config,
    sha256_of,
    write_sums,
)
from fedkin.experiment.tracking import NOTES
from fedkin.report.numbers import join_words, pluralize


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
    left_out = shutil.ignore_patterns(RESULT, MODELS, "labels", REPORT, SUMS, NOTES, LOCK, "*.partial")
    with empty_folder(out):
        reopen(folder, out, config, {**checkpoint, "state": state.tree()}, left_out)
        return None if (out / LEDGER).is_file() else resume(out, progress)


FORGOTTEN = "forgotten.json"
_NOT_COVERED = [
    "copies of the run: backups, trackers, reports, models and predictions that were handed out",
    "what other clients have received before and kept",
    "the client's own data, which only the client can delete",
    "what the run before and the run after show together: the difference is of this client",
]


@dataclass(frozen=True)
class ForgettingPlan:
    """Plan of forgetting clients.

    `clients` are their positions, in order. `config` is the experiment of the run without them; `names` has the names
    of all clients, and is empty if they have positions only. `steps` is the number of steps that are done again.
    `checkpoint` is that of the run without them, where the method leaves them out of what the others have sent; with
    ``None`` all is run again.
    """

    folder: Path
    config: Config
    clients: tuple[int, ...]
    names: list[str]
    steps: int
    checkpoint: dict[str, Any] | None

    def sentence(self) -> str:
        """Describe in a sentence what will be done."""
        names = join_words([client_name(position, self.names) for position in self.clients])
        subject = f"Client{'' if len(self.clients) == 1 else 's'} {names} will be left out"
        if self.checkpoint is None:
            return f"{subject} by running again: the others compute and send {pluralize(self.steps, 'step')} again."
        remains = _remains(self.config.method)
        return (
            f"{subject} of what the others have sent: clusters are formed again, and nobody is asked for anything."
            f"{f' What stays: {remains}.' if remains else ''}"
        )


def plan_forgetting(folder: Path, clients: Sequence[int | str], retrain: bool = False) -> ForgettingPlan:
    """Plan how clients can be forgotten, without changing anything.

    `clients` are positions or names; with `retrain` all is run again even where the method can leave a client out
    exactly. Raises FedkinError if `folder` holds no finished run, a client does not exist, took no part or is forgotten
    already, no client would be left, or a real federation's run would have to be repeated.
    """
    before, checkpoint = run_config(folder), finished_checkpoint(folder)
    is_real = (folder / LEDGER).is_file()
    population = Population([], None, [], names=load_found(folder).clients) if is_real else before.population()
    names, count = population.names, max(len(population.names), len(population.clients))
    steps = int(checkpoint["state"]["steps"])
    forgotten = {position_of(client, names, count) for client in before.federation.forgotten}
    positions = set()
    for client in clients:
        position = position_of(client, names, count)
        if position is None:
            listed = f", or {join_words(short_names(names))}" if names else ""
            raise FedkinError(f"{folder} has no client {client}; allowed: 0 to {count - 1}{listed}.")
        if position in forgotten | population.away(steps):
            raise FedkinError(
                f"Client {client_name(position, names)} took no part in {folder}, or is forgotten already; there is "
                "nothing to forget."
            )
        positions.add(position)
    gone = [*before.federation.forgotten, *(names[i] if names else i for i in sorted(positions))]
    if not positions or len(gone) >= count:
        raise FedkinError(f"Some clients of {folder} are to be forgotten, and others left, not {len(gone)} of {count}.")
    config = run_config(folder, [f"federation.forgotten={json.dumps(gone, ensure_ascii=False)}"])
    method, state, start = config.method, None, None
    if isinstance(method, CanForget) and not retrain:
        state = method.without(restore(method.state_type, checkpoint["state"]), sorted(positions))
    if state is not None:
        steps -= int(state.steps)
        start = {**checkpoint, "state": dict(state.tree()), "clients": dict(checkpoint["clients"])}
        for i in map(str, positions):
            start["clients"] |= {i: {}} if i in start["clients"] else {}
            for name in {"keys", "signed", "left_out"} & start.keys():
                start[name] = {client: value for client, value in start[name].items() if client != i}
    elif is_real:
        raise FedkinError(
            f"The part of {gone[-1]} in {folder} cannot be separated from the others'; only a run without it forgets "
            "it: list the other clients in [federation], and run the experiment with another out."
        )
    return ForgettingPlan(folder, config, tuple(sorted(positions)), names, steps, start)


def forget(plan: ForgettingPlan, out: Path, progress: Progress | None = None) -> RunOutcome:
    """Write a run without some clients to `out`, as a new run with a certificate; the old one stays as it is.

    Where the method stores each client's contribution separately, clusters are formed again from those of the
    others (`CanForget`), and the labels equal those of a run in which the forgotten clients sent nothing. Otherwise
    the run is repeated without them; its files equal those of a run with ``federation.forgotten``. The sites of a real
    federation are not contacted: they get their new clusters when the server runs the experiment of `out`, into `out`.

    `out` is empty or absent. Raises FedkinError if it is not, or as running the experiment does.
    """
    with empty_folder(out):
        earlier_file = plan.folder / FORGOTTEN
        earlier = read_json(earlier_file, list[dict[str, Any]]) if earlier_file.exists() else []
        before, is_exact = _hashes(plan.folder), plan.checkpoint is not None
        outcome = _run_without(plan, out, progress or Progress())
        certificate = {
            "method": plan.config.method_name,
            "clients": [{"position": i, "name": plan.names[i] if plan.names else None} for i in plan.clients],
            "way": "exact" if is_exact else "retrained",
            "steps_done_again": plan.steps,
            "others_asked_again": not is_exact,
            "still_hold": _still_held(plan, out),
            "not_covered": [f"the run {plan.folder.name}, which holds all it held", *_NOT_COVERED],
            "before": before,
            "after": _hashes(out),
        }
        write_atomically(out / FORGOTTEN, json.dumps([*earlier, certificate], indent=2, ensure_ascii=False) + "\n")
        return outcome


def _run_without(plan: ForgettingPlan, out: Path, progress: Progress) -> RunOutcome:
    """Make the run without the forgotten clients."""
    if plan.checkpoint is None:
        return execute(plan.config, out, progress)
    files, forgotten = {RECORDS, TIMING, LEDGER, CLIENT_FOLDERS}, {str(position) for position in plan.clients}

    def left_out(place: str, names: list[str]) -> set[str]:
        return {name for name in names if (name not in files if Path(place) == plan.folder else name in forgotten)}

    reopen(plan.folder, out, plan.config, plan.checkpoint, left_out)
    if not (out / LEDGER).is_file():
        return resume(out, progress)
    # A real federation's clusters are formed here without its sites, whose last step the server does later.
    saved = load_found(plan.folder)
    population = Population([], None, saved.classes, names=saved.clients).forgetting(plan.config.federation.forgotten)
    outcome = Run(plan.config, out, population, LocalFederation([], plan.config.seed), progress).finish()
    save_tree(out / CHECKPOINT, plan.checkpoint)
    write_sums(out, [CONFIG, *RESULTS])
    return outcome


def _hashes(folder: Path) -> dict[str, str]:
    """Return the digests of a run's files that can contain something of a client."""
    names = (CONFIG, RECORDS, CHECKPOINT, RESULT, MODELS)
    return {name: sha256_of(folder / name) for name in names if (folder / name).is_file()}


def _still_held(plan: ForgettingPlan, out: Path) -> list[dict[str, str]]:
    """List what the files in `out` still hold of the forgotten clients: ``file`` and ``what``."""
    held = {CONFIG: ["its name or position, by which the run leaves it out"]}
    names = {each[i] for i in plan.clients for each in (plan.names, short_names(plan.names)) if i < len(each)}
    texts = [path for path in sorted(out.rglob("*")) if path.suffix in (".toml", ".jsonl", ".json", ".csv", ".html")]
    for path in texts:
        if path.name not in (CONFIG, LEDGER, FORGOTTEN) and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            if any(name in text for name in names):
                held[path.relative_to(out).as_posix()] = ["its name"]
    if (out / LEDGER).is_file():
        held[LEDGER] = ["its name, identity and key, which keep its seat from others"]
    if plan.checkpoint is not None and plan.checkpoint["state"]["steps"]:
        held.setdefault(RECORDS, []).append("that it answered in the steps that are kept, and bytes of its replies")
    if plan.checkpoint is not None:
        remains = kept_of(plan.config.method, Preparation.from_tree(plan.checkpoint["preparation"]))
        for name in (CHECKPOINT, RESULT, MODELS):
            held.setdefault(name, []).extend(remains)
    return [{"file": name, "what": what} for name, whats in held.items() for what in whats]


def kept_of(method: Any, preparation: Preparation) -> list[str]:
    """Describe what remains of a client that the method has left out exactly."""
    facts = [remains] if (remains := _remains(method)) else []
    if preparation.mode in ("standard", "common"):
        facts.append("how samples are scaled and encoded, found from sums over all clients' samples")
    return facts


def _remains(method: Any) -> str:
    return method.remains() if isinstance(method, CanForget) else ""
