"""Finished runs made anew in another folder: clusters cut again, clients forgotten, or next month's rows taken in.

A client is forgotten exactly where the method stores each client's contribution separately (`CanForget`), else by a run
without it. ``forgotten.json`` certifies what was done, and what it does not cover. An update's clusters keep their
numbers.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from fedkin.core import FedkinError
from fedkin.core.errors import in_short
from fedkin.core.files import LOCK, check_empty, folder_lock, read_json, write_atomically, write_secret
from fedkin.core.method import CanCut, CanForget, CanUpdate
from fedkin.core.payload import owned, save_tree
from fedkin.core.runner import Progress
from fedkin.data.population import Population, client_name, position_of, short_names
from fedkin.data.preparation import STATE, Preparation, carried_over
from fedkin.engines.local import LocalFederation
from fedkin.experiment.config import Config
from fedkin.experiment.numbering import earlier_of, followed_by
from fedkin.experiment.run import Run, RunOutcome, execute, resume
from fedkin.experiment.run_folder import (
    CHECKPOINT,
    CLIENT_FOLDERS,
    CONFIG,
    LEDGER,
    MODELS,
    RECORDS,
    RESULT,
    RESULTS,
    TIMING,
    UPDATE,
    check_finished,
    is_update,
    load_checkpoint,
    load_found,
    read_lines,
    restore,
    run_config,
    write_config,
    write_sums,
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
    checkpoint = finished_checkpoint(folder)
    changes = [f"method.n_clusters={n_clusters}", "method.resolution=auto"]
    config = run_config(folder, [*changes, *followed_by(folder)])
    method: Any = config.method
    state = method.before_cut(restore(method.state_type, checkpoint["state"]))  # as it was before its last step
    with empty_folder(out):
        reopen(folder, out, config, {**checkpoint, "state": state.tree()})
        if (out / LEDGER).is_file():
            return None
        return resume(out, progress)


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
    before, checkpoint = run_config(folder), finished_checkpoint(folder)
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
    if state is None and is_update(checkpoint):
        raise FedkinError(
            f"{folder} is an update, whose data are without the rows of before; forget the client in "
            f"{before.evaluation.like}, and update that run again."
        )
    with empty_folder(out):
        earlier = read_json(file, list[dict[str, Any]]) if (file := folder / FORGOTTEN).exists() else []
        start = None
        if state is None:
            outcome = execute(config, out, progress)
        else:
            parts = {
                part: {client: value for client, value in checkpoint[part].items() if int(client) not in gone}
                for part in {"keys", "signed", "left_out"} & checkpoint.keys()
            }
            states = {i: {} if int(i) in gone else each for i, each in checkpoint["clients"].items()}
            start = {**checkpoint, **parts, "clients": states, "state": dict(state.tree())}
            outcome = _go_on(folder, config, out, start, gone, progress)
        certificate = {
            "method": config.method_name,
            "clients": [{"position": i, "name": names[i] if names else None} for i in gone],
            "way": "retrained" if state is None else "exact",
            "steps_done_again": steps - (0 if state is None else int(state.steps)),
            "others_asked_again": state is None,
            "still_hold": _still_held(out, method, start),
            "not_covered": [f"the run {folder.name}, which holds all it held", *_NOT_COVERED],
        }
        write_atomically(out / FORGOTTEN, json.dumps([*earlier, certificate], indent=2, ensure_ascii=False) + "\n")
        return outcome


def _positions(
    folder: Path, clients: Sequence[int | str], population: Population, config: Config, steps: int
) -> list[int]:
    """Return the positions of clients to forget, in order, and check that they took part, and that others are left."""
    names, count = population.names, max(len(population.names), len(population.clients))
    forgotten = {position_of(client, names, count) for client in config.federation.forgotten}
    away = {position_of(client, names, count) for client in config.federation.away} - forgotten
    positions: set[int] = set()
    for client in clients:
        position = position_of(client, names, count)
        if position is None:
            listed = f", or {join_words(short_names(names))}" if names else ""
            raise FedkinError(f"{folder} has no client {client}; allowed: 0 to {count - 1}{listed}.")
        if position in forgotten | population.away(steps) - away:
            raise FedkinError(
                f"Client {client_name(position, names)} took no part in {folder}, or is forgotten already; there is "
                "nothing to forget."
            )
        positions.add(position)
    if not positions or len(positions | forgotten) >= count:
        raise FedkinError(f"Of the {count} clients of {folder} some are to be forgotten, and at least one is left.")
    return sorted(positions)


def _go_on(
    folder: Path, config: Config, out: Path, start: dict[str, Any], gone: Sequence[int], progress: Progress | None
) -> RunOutcome:
    """Finish the run from a checkpoint without the forgotten clients."""
    reopen(folder, out, config, start, gone)
    if not (out / LEDGER).is_file():
        return resume(out, progress)
    # A real federation's clusters are formed here without its sites, whose last step the server does later.
    saved = load_found(folder)
    population = Population([], None, saved.classes, names=saved.clients).forgetting(config.federation.forgotten)
    outcome = Run(config, out, population, LocalFederation([], config.seed), progress or Progress()).finish()
    save_tree(out / CHECKPOINT, start)
    write_sums(out, [CONFIG, *RESULTS])
    return outcome


def _still_held(out: Path, method: Any, start: Mapping[str, Any] | None) -> list[str]:
    """List what the files in `out` still hold of forgotten clients; `start` is the checkpoint without them, if any."""
    held = [f"{CONFIG}, {RESULT} and the page: its name or position, by which the run leaves it out"]
    if (out / LEDGER).is_file():
        held.append(f"{LEDGER}: its name, identity and key, which keep its seat from others")
    if start is not None and start["state"]["steps"]:
        held.append(f"{RECORDS}: that it answered in the steps that are kept, and bytes of its replies")
    if start is not None:
        remains = kept_of(method, Preparation.from_tree(start["preparation"]))
        held += [f"{CHECKPOINT}, {RESULT} and {MODELS}: {what}" for what in remains]
    return held


def kept_of(method: Any, preparation: Preparation) -> list[str]:
    """Describe what remains of a client that the method has left out exactly."""
    facts = [remains] if isinstance(method, CanForget) and (remains := method.remains()) else []
    if preparation.encoding.is_scaled:
        facts.append("how samples are scaled and encoded, found from sums over all clients' samples")
    return facts


# The folder that a run is made anew in.


@contextmanager
def empty_folder(out: Path) -> Iterator[None]:
    """Lock `out`, which is empty or absent, and empty it again if that ends in a refusal, or before there is a run."""
    check_empty(out)
    with folder_lock(out):
        check_empty(out)
        try:
            yield
        except BaseException as error:
            if isinstance(error, FedkinError) or not (out / CONFIG).exists():
                for path in out.iterdir():
                    if path.is_dir():
                        shutil.rmtree(path)
                    elif path.name != LOCK:
                        path.unlink()
            raise


def finished_checkpoint(folder: Path) -> dict[str, Any]:
    """Load the last checkpoint of a finished run.

    Raises FedkinError if the run has not finished, or the checkpoint is absent or of another version.
    """
    check_finished(folder)
    checkpoint = load_checkpoint(folder / CHECKPOINT)
    if checkpoint is None:
        raise FedkinError(f"{folder} is damaged: {CHECKPOINT} is absent.")
    return checkpoint


def reopen(
    folder: Path, out: Path, config: Config, checkpoint: Mapping[str, Any], forgotten: Collection[int] = ()
) -> None:
    """Copy the run in `folder` to `out`, an `empty_folder`, with another configuration and checkpoint.

    `checkpoint` is as `load_checkpoint` gives it; private folders of clients that are `forgotten` are not copied.
    """
    out.mkdir(parents=True, exist_ok=True)
    try:
        for name in (RECORDS, TIMING, LEDGER):
            if (folder / name).is_file():
                shutil.copy(folder / name, out / name)  # with its mode, for a ledger is secret
        for place in folder.glob(f"{CLIENT_FOLDERS}/*"):
            if place.name not in map(str, forgotten):
                shutil.copytree(place, out / CLIENT_FOLDERS / place.name)
    except (OSError, shutil.Error) as error:
        raise FedkinError(f"{folder} cannot be copied ({in_short(error)}).") from error
    save_tree(out / CHECKPOINT, owned(dict(checkpoint)))
    write_config(out, config)  # last, for with it there is a run that can be resumed


# An update by next month's rows and clients.


def update(folder: Path, data: str, out: Path, progress: Progress | None = None) -> RunOutcome | None:
    """Update the run in `folder` by `data`, next month's rows and clients, and write it to `out`; `folder` stays.

    Clients are the same by their names, and rows by their ids, or by what they hold. Where the method can
    (`CanUpdate`), as k-FED and kin-graph, data are prepared as before, and what clients send of new rows is added to
    what they sent of those before, see `fedkin.data.preparation`. Other methods cluster `data` anew. In both cases
    clusters keep their numbers and names, as with ``evaluation.like``, and ``changes.html`` says what has changed.

    Parameters
    ----------
    folder : Path
        A finished run that clusters samples.
    data : str
        What clients have now, as ``data.source``: with rows of before, or without.
    out : Path
        Empty or absent.
    progress : Progress, optional
        Shows the progress.

    Returns
    -------
    RunOutcome or None
        ``None`` of a real federation's run, with `data` "federation": its server asks the sites when it runs the
        experiment into `out`.

    Raises
    ------
    FedkinError
        If `folder` holds no such run, `data` do not fit it, `out` is not empty, or as running does.
    """
    earlier_of(folder)  # which refuses what has no clusters of rows
    progress = progress or Progress()
    if (folder / LEDGER).is_file() != (data == "federation"):
        raise FedkinError(
            f"{folder} {'is' if data != 'federation' else 'is not'} the run of a real federation, whose data are given "
            "as `federation`: the rows that its sites have now."
        )
    settings = [f"data.source={json.dumps(data, ensure_ascii=False)}", *followed_by(folder)]
    if data == "federation":
        config = run_config(folder, settings)
        clients = range(len(load_found(folder).clients))
        start = _start(config, finished_checkpoint(folder), dict(zip(clients, clients, strict=True)))
        with empty_folder(out):
            if start is None:
                write_config(out, config)
                return None
            _reopen(folder, out, config, start)
            ledger = read_json(out / LEDGER, dict[str, Any])
            ledger |= {"run": secrets.token_hex(8), "like": ledger["run"]}  # whose memory sites begin with
            write_secret(out / LEDGER, (json.dumps(ledger, indent=2) + "\n").encode())
        return None
    config = run_config(folder, [*settings, "federation.away=[]"])
    start = None
    if isinstance(config.method, CanUpdate) and config.simulation.engine == "local":
        names, before = config.population().names, load_found(folder).clients
        away = [name for name in before if name not in names and name not in config.federation.forgotten]
        config_without = run_config(folder, [*settings, f"federation.away={json.dumps(away, ensure_ascii=False)}"])
        if names and before and config.simulation.scenario == "files":
            population = config_without.population()
            places = {old: population.names.index(name) for old, name in enumerate(before) if name in population.names}
            start = _start(config_without, finished_checkpoint(folder), places)
            if start is not None:
                start["clients"] = _memories(config_without, start, population, places)
    if start is None:
        progress.note(f"{config.method_name} clusters the rows of {data} alone, anew; numbers follow {folder}.")
        return execute(config, out, progress)
    with empty_folder(out):
        _reopen(folder, out, config_without, start)
        return resume(out, progress)


def _start(config: Config, checkpoint: Mapping[str, Any], places: Mapping[int, int]) -> dict[str, Any] | None:
    """Return the checkpoint that the updated run resumes from; ``None`` where what was sent cannot be used again.

    `places` are the new ids of the clients of before, by their old ones.
    """
    method = config.method
    if not isinstance(method, CanUpdate):
        return None
    state = method.updated(restore(method.state_type, checkpoint["state"]), places)
    if state is None:
        return None
    notes = [
        f"Data are prepared as in {config.evaluation.like}. Clusters are described by the rows of before, as they were "
        "described there, and by new ones."
    ]
    prepared = replace(Preparation.from_tree(checkpoint["preparation"]), notes=notes, questions=())
    fresh: dict[str, Any] = {
        "keys": {}, "left_out": {}, "sent": 0, "received": 0, "by_task": {}, "state": state.tree(),
        "preparation": prepared.tree(), UPDATE: "due",
    }  # fmt: skip
    return {**{name: part for name, part in checkpoint.items() if name != "signed"}, **fresh}


def _memories(
    config: Config, start: Mapping[str, Any], population: Population, places: Mapping[int, int]
) -> dict[str, dict[str, Tensor]]:
    """Return what the clients of this process remember at the start of an update; refuse other columns by name."""
    before = {places[int(i)]: carried_over(each) for i, each in start["clients"].items() if int(i) in places}
    common = next(({STATE: each[STATE]} for each in before.values() if STATE in each), {})
    preparation, states = Preparation.from_tree(start["preparation"]), dict[str, dict[str, Tensor]]()
    for i, client in enumerate(population.clients):
        if i not in population.forgotten:
            preparation.prepared(client.x, client.table, f"'{population.names[i]}'", client.table)
            states[str(i)] = common | before.get(i, {})
        else:  # one that is away may come back
            states[str(i)] = before.get(i, {}) if population.names[i] in config.federation.away else {}
    return states


def _reopen(folder: Path, out: Path, config: Config, start: Mapping[str, Any]) -> None:
    """Copy the run in `folder` to `out`, to go on from `start`; bytes are counted anew."""
    reopen(folder, out, config, dict(owned(start)))
    lines = [{**line, "sent": 0, "received": 0} for line in read_lines(out / RECORDS)]
    write_atomically(out / RECORDS, "".join(f"{json.dumps(line)}\n" for line in lines))
