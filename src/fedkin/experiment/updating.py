"""Update of a finished run by next month's rows and clients, as a new run whose clusters keep their numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from fedkin.core import FedkinError
from fedkin.core.files import write_atomically
from fedkin.core.method import SENT, CanUpdate
from fedkin.core.payload import owned
from fedkin.core.runner import Progress
from fedkin.data.population import Population
from fedkin.data.preparation import STATE, Preparation
from fedkin.experiment.config import Config
from fedkin.experiment.numbering import earlier_of, followed_by, ids_of
from fedkin.experiment.revision import empty_folder, finished_checkpoint, reopen
from fedkin.experiment.run import RunOutcome, execute, resume
from fedkin.experiment.run_folder import (
    LEDGER,
    RECORDS,
    label_file,
    load_found,
    read_labels,
    read_lines,
    restore,
    run_config,
    write_config,
)

_SENT_IDS = "sent_ids"
"""In a client's state: hashes of the ids of all rows of which it has ever sent something, int64 ``(m,)``."""


def update(folder: Path, data: str, out: Path, progress: Progress | None = None) -> RunOutcome | None:
    """Update the run in `folder` by `data`, next month's rows and clients, and write it to `out`; `folder` stays.

    Clients are the same by their names, and rows by their ids. Where the method can (`CanUpdate`), clients are not
    asked again for what they have sent, and data are prepared as before; k-FED and kin-graph add what clients send of
    rows without a known id, and FFCM begins at the centroids found. Other methods cluster `data` anew. In both cases
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
        ``None`` of a real federation's run, with `data` "federation": its server clusters the sites' rows of now when
        it runs the experiment into `out`, which has the setting to keep the numbers.

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
        with empty_folder(out):
            write_config(out, run_config(folder, settings))
        return None
    config = run_config(folder, [*settings, "federation.away=[]"])
    start = None
    if isinstance(config.method, CanUpdate) and config.simulation.engine == "local":
        checkpoint, names = finished_checkpoint(folder), config.population().names
        before = load_found(folder).clients
        away = [name for name in before if name not in names and name not in config.federation.forgotten]
        config_without = run_config(folder, [*settings, f"federation.away={json.dumps(away, ensure_ascii=False)}"])
        if names and before and config.simulation.scenario == "files":
            start = _start(folder, config_without, checkpoint, config_without.population(), progress)
    if start is None:
        progress.note(f"{config.method_name} clusters the rows of {data} alone, anew; numbers follow {folder}.")
        return execute(config, out, progress)
    with empty_folder(out):
        reopen(folder, out, config_without, start)
        lines = [{**line, "sent": 0, "received": 0} for line in read_lines(out / RECORDS)]  # bytes are this month's
        write_atomically(out / RECORDS, "".join(f"{json.dumps(line)}\n" for line in lines))
        return resume(out, progress)


def _start(
    folder: Path, config: Config, checkpoint: Mapping[str, Any], population: Population, progress: Progress
) -> dict[str, Any] | None:
    """Return the checkpoint that the updated run resumes from; ``None`` where what was sent cannot be used again."""
    saved, names, method = load_found(folder), population.names, config.method
    places = {old: names.index(name) for old, name in enumerate(saved.clients) if name in names}
    state = method.updated(restore(method.state_type, checkpoint["state"]), places)  # type: ignore[attr-defined]
    if state is None:
        return None
    labels, preparation = read_labels(folder), Preparation.from_tree(checkpoint["preparation"])
    old_states = {places[int(i)]: each for i, each in checkpoint["clients"].items() if int(i) in places}
    common = next(({STATE: each[STATE]} for each in old_states.values() if STATE in each), {})
    states: dict[str, dict[str, Tensor]] = {}
    for i, client in enumerate(population.clients):
        earlier, ids = labels.get(label_file(folder, i, names).stem), ids_of(client, preparation.encoding.schema.id)
        remembered = sent_rows(old_states.get(i, {}), earlier, ids, len(client))
        if i in population.forgotten:  # one that is away may come back
            states[str(i)] = {_SENT_IDS: remembered[_SENT_IDS]} if names[i] in config.federation.away else {}
            continue
        preparation.prepared(client.x, client.table, f"'{names[i]}'", client.table)  # refuses other columns by name
        states[str(i)] = {**common, **remembered}
        if ids is None and earlier is not None:
            progress.note(f"Rows of {names[i]} have no ids, so that all count as new; data.id names their column.")
    notes = [f"Data are prepared as in {folder}."]
    prepared = replace(preparation, notes=notes, questions=())
    fresh: dict[str, Any] = {
        "keys": {}, "left_out": {}, "sent": 0, "received": 0, "by_task": {}, "state": state.tree(), "clients": states,
        "preparation": prepared.tree(),
    }  # fmt: skip
    return dict(owned({**{name: part for name, part in checkpoint.items() if name != "signed"}, **fresh}))


def sent_rows(
    state: Mapping[str, Tensor], labels: pd.Series[Any] | None, ids: pd.Index[Any] | None, rows: int
) -> dict[str, Tensor]:
    """Return what a client remembers at the start of an update: of which rows, and ids, it has sent something.

    `state` is the client's of the run before, and `labels` the clusters of its rows then, by id; `ids` are those of its
    `rows` now.
    """
    sent = state.get(_SENT_IDS, torch.zeros(0, dtype=torch.int64))
    if labels is not None and labels.index.name != "row":
        has_sent = state.get(SENT, torch.ones(len(labels), dtype=torch.bool))
        sent = torch.cat([sent, hashes(labels.index)[has_sent]]).unique()
    has_sent_row = torch.zeros(rows, dtype=torch.bool) if ids is None else torch.isin(hashes(ids), sent)
    return {SENT: has_sent_row, _SENT_IDS: sent}


def hashes(ids: pd.Index[Any]) -> Tensor:
    """Return hashes of ids, int64 ``(n,)``."""
    digests = [hashlib.blake2b(str(each).encode(), digest_size=8).digest() for each in ids]
    return torch.tensor([int.from_bytes(each, "big", signed=True) for each in digests], dtype=torch.int64)
