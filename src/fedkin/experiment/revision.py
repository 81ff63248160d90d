"""Finished runs made anew in another folder: clusters cut again, or clients forgotten.

A client is forgotten exactly where the method stores each client's contribution separately (`CanForget`), else by a run
without it. ``forgotten.json`` certifies what was done, and what it does not cover.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.errors import in_short
from fedkin.core.files import read_json, write_atomically
from fedkin.core.method import CanCut, CanForget
from fedkin.core.payload import owned, save_tree
from fedkin.core.runner import Progress
from fedkin.data.population import Population, client_name, position_of, short_names
from fedkin.data.preparation import Preparation
from fedkin.engines.local import LocalFederation
from fedkin.experiment.config import Config
from fedkin.experiment.numbering import followed_by
from fedkin.experiment.run import Run, RunOutcome, execute, new_folder, resume
from fedkin.experiment.run_folder import (
    CHECKPOINT,
    CLIENT_FOLDERS,
    CONFIG,
    LEDGER,
    MODELS,
    RECORDS,
    RESULT,
    TIMING,
    check_finished,
    experiment_of,
    load_checkpoint,
    load_found,
    restore,
    run_config,
    write_config,
)
from fedkin.report.numbers import join_words


def cut(folder: Path, out: Path, n_clusters: int, progress: Progress | None = None) -> RunOutcome | None:
    """Cut the clusters of the finished run in `folder` again, and write them to `out`, empty or absent, as a new run.

    Clients are sent their new clusters and asked for nothing. `out` holds the labels of a run that was given
    `n_clusters`, at least 1, from the start. `folder` stays as it is. ``None`` is returned of a real federation: its
    server sends the clusters when it runs the experiment, with the same number, into `out`. Raises FedkinError if
    `folder` holds no finished run of a method that cuts (`CanCut`), there cannot be so many clusters, or `out` is not
    empty.
    """
    if not isinstance(run_config(folder).method, CanCut):
        raise FedkinError(
            f"{folder} cannot be cut again: its method keeps no clusters of clusters. Run it with another number of "
            "clusters instead."
        )
    checkpoint = _last_checkpoint(folder)
    changes = [f"method.n_clusters={n_clusters}", "method.resolution=auto"]
    config = run_config(folder, [*changes, *followed_by(folder)])
    method: Any = config.method
    state = method.before_cut(restore(method.state_type, checkpoint["state"]))  # as it was before its last step
    with new_folder(out, copies=True):
        _copy(folder, out, config, {**checkpoint, "state": state.tree()})
        return None if (out / LEDGER).is_file() else resume(out, progress)


FORGOTTEN = "forgotten.json"
_NOT_COVERED = [
    "copies of the run: backups, reports, models and predictions that were handed out",
    "what other clients have received before and kept",
    "the client's own data, which only the client can delete",
    "what the run before and the run after show together: the difference is of this client",
]


def forget(
    folder: Path, clients: Sequence[int | str], out: Path, retrain: bool = False, progress: Progress | None = None
) -> RunOutcome:
    """Write the finished run in `folder` without some clients to `out`, empty or absent, with a certificate.

    `clients` are positions or names. Where the method stores each client's contribution separately, clusters are formed
    again from those of the others (`CanForget`), and the labels equal those of a run in which the forgotten clients
    sent nothing. Otherwise, or with `retrain`, the run is repeated without them; its files equal those of a run with
    ``federation.forgotten``. The sites of a real federation are not contacted: they get their new clusters when the
    server runs the experiment of `out`, into `out`. `folder` stays.

    Raises FedkinError if `folder` holds no finished run, a client does not exist, took no part or is forgotten already,
    no client would be left, a real federation's run would have to be repeated, `out` is not empty, or as running does.
    """
    before, checkpoint = run_config(folder), _last_checkpoint(folder)
    is_real = (folder / LEDGER).is_file()
    population = Population([], None, [], names=load_found(folder).clients) if is_real else before.population()
    names, steps = population.names, int(checkpoint["state"]["steps"])
    gone = _positions(folder, clients, population, before, steps)
    listed = [*before.federation.forgotten, *(names[i] if names else i for i in gone)]
    left_out = f"federation.forgotten={json.dumps(listed, ensure_ascii=False)}"
    config = run_config(folder, [left_out, *followed_by(folder)])
    method: Any = config.method
    state = None
    if isinstance(method, CanForget) and not retrain:
        state = method.without(restore(config.method.state_type, checkpoint["state"]), gone)
    if state is None and is_real:
        raise FedkinError(
            f"The part of {listed[-1]} in {folder} cannot be separated from the others'; only a run without it forgets "
            "it: list the other clients in [federation], and run the experiment with another out."
        )
    held = [f"{CONFIG}, {RESULT} and the page: its name or position, by which the run leaves it out"]
    if is_real:
        held.append(f"{LEDGER}: its name, identity and key, which keep its seat from others")
    with new_folder(out, copies=True):
        if state is None:
            outcome = execute(config, out, progress)
        else:
            parts = {
                part: {client: value for client, value in checkpoint[part].items() if int(client) not in gone}
                for part in {"keys", "signed", "left_out"} & checkpoint.keys()
            }
            states = {i: {} if int(i) in gone else each for i, each in checkpoint["clients"].items()}
            start = {**checkpoint, **parts, "clients": states, "state": dict(state.tree())}
            _copy(folder, out, config, start, gone)
            outcome = _finished_by_server(folder, config, out, progress) if is_real else resume(out, progress)
            if state.steps:
                held.append(f"{RECORDS}: that it answered in the steps that are kept, and bytes of its replies")
            remains = kept_of(method, Preparation.from_tree(start["preparation"]))
            held += [f"{CHECKPOINT}, {RESULT} and {MODELS}: {what}" for what in remains]
        certificate = {
            "method": config.method_name,
            "clients": [{"position": i, "name": names[i] if names else None} for i in gone],
            "way": "retrained" if state is None else "exact",
            "steps_done_again": steps - (0 if state is None else int(state.steps)),
            "others_asked_again": state is None,
            "still_hold": held,
            "not_covered": [f"the run {folder.name}, which holds all it held", *_NOT_COVERED],
        }
        earlier = read_json(file, list[dict[str, Any]]) if (file := folder / FORGOTTEN).exists() else []
        write_atomically(out / FORGOTTEN, json.dumps([*earlier, certificate], indent=2, ensure_ascii=False) + "\n")
        return outcome


def _positions(
    folder: Path, clients: Sequence[int | str], population: Population, config: Config, steps: int
) -> list[int]:
    """Return the positions of clients to forget, in order, and check that they took part, and that others are left."""
    names, count = population.names, max(len(population.names), len(population.clients))
    forgotten = {position_of(client, names, count) for client in config.federation.forgotten}
    positions: set[int] = set()
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
    if not positions or len(positions | forgotten) >= count:
        raise FedkinError(f"Of the {count} clients of {folder} some are to be forgotten, and at least one is left.")
    return sorted(positions)


def _finished_by_server(folder: Path, config: Config, out: Path, progress: Progress | None) -> RunOutcome:
    """Form the clusters of a real federation without its sites, whose last step the server does later, from `out`."""
    saved, checkpoint = load_found(folder), (out / CHECKPOINT).read_bytes()
    population = Population([], None, saved.classes, names=saved.clients).forgetting(config.federation.forgotten)
    outcome = Run(config, out, population, LocalFederation([], config.seed), progress or Progress()).finish()
    write_atomically(out / CHECKPOINT, checkpoint)
    return outcome


def kept_of(method: Any, preparation: Preparation) -> list[str]:
    """Describe what remains of a client that the method has left out exactly."""
    facts = [remains] if isinstance(method, CanForget) and (remains := method.remains()) else []
    if preparation.encoding.is_scaled:
        facts.append("how samples are scaled and encoded, found from sums over all clients' samples")
    return facts


def _last_checkpoint(folder: Path) -> dict[str, Any]:
    """Load the last checkpoint of a finished run; raise FedkinError if it has not finished, or there is none."""
    check_finished(folder)
    checkpoint = load_checkpoint(folder / CHECKPOINT)
    if checkpoint is None:
        raise FedkinError(f"{folder} is damaged: {CHECKPOINT} is absent.")
    return checkpoint


def _copy(
    folder: Path, out: Path, config: Config, checkpoint: Mapping[str, Any], forgotten: Collection[int] = ()
) -> None:
    """Copy the run in `folder` to `out` with another configuration and checkpoint, from which it can be resumed.

    Private folders of clients that are `forgotten` are not copied.
    """
    try:
        for name in (RECORDS, TIMING, LEDGER):
            if (folder / name).is_file():
                shutil.copy(folder / name, out / name)  # with its mode, for a ledger is secret
        for place in folder.glob(f"{CLIENT_FOLDERS}/*"):
            if place.name not in map(str, forgotten):
                shutil.copytree(place, out / CLIENT_FOLDERS / place.name)
    except (OSError, shutil.Error) as error:
        raise FedkinError(f"{folder} cannot be copied ({in_short(error)}).") from error
    save_tree(out / CHECKPOINT, owned({**checkpoint, "experiment": experiment_of(config)}))
    write_config(out, config)  # last, for with it there is a run that can be resumed
