"""Update of a finished run by next month's rows and clients, as a new run whose clusters keep their numbers."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from fedkin.core import FedkinError
from fedkin.core.files import read_json, write_atomically, write_secret
from fedkin.core.method import CanUpdate
from fedkin.core.payload import owned
from fedkin.core.runner import Progress
from fedkin.data.described_rows import carried_over
from fedkin.data.population import Population
from fedkin.data.preparation import STATE, Preparation
from fedkin.experiment.config import Config
from fedkin.experiment.numbering import earlier_of, followed_by
from fedkin.experiment.revision import empty_folder, finished_checkpoint, reopen
from fedkin.experiment.run import RunOutcome, execute, resume
from fedkin.experiment.run_folder import (
    LEDGER,
    RECORDS,
    UPDATE,
    load_found,
    read_lines,
    restore,
    run_config,
    write_config,
)


def update(folder: Path, data: str, out: Path, progress: Progress | None = None) -> RunOutcome | None:
    """Update the run in `folder` by `data`, next month's rows and clients, and write it to `out`; `folder` stays.

    Clients are the same by their names, and rows by their ids, or by what they hold. Where the method can
    (`CanUpdate`), as k-FED and kin-graph, data are prepared as before, and what clients send of new rows is added to
    what they sent of those before, see `fedkin.data.described_rows`. Other methods cluster `data` anew. In both cases
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
