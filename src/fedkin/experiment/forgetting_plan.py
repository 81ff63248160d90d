"""Plan of forgetting clients: how it will be done and what it costs, before anything is changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fedkin.core import FedkinError
from fedkin.core.method import CanForget
from fedkin.data.population import Population, client_name, position_of, short_names
from fedkin.experiment.checkpoint import load_checkpoint, restore
from fedkin.experiment.config import Config
from fedkin.experiment.outputs import load_found
from fedkin.experiment.run_folder import (
    KEPT,
    LEDGER,
    finished_checkpoint,
    kept_checkpoint,
    read_records,
    read_timing,
    run_config,
)
from fedkin.report.numbers import format_bytes, join_words, pluralize

Way = Literal["exact", "retrained"]
"""How a client is left out: from what the others have sent, or by a run without it."""


@dataclass(frozen=True)
class ForgettingPlan:
    """Plan of forgetting clients: how it will be done, and what it costs.

    `clients` are their positions, in order. `config` is the experiment of the run without them; `names` has the names
    of all clients, and is empty if they have positions only. `begins` is the number of steps that are kept as they are,
    `steps` that of steps repeated from `checkpoint`, ``None`` for the start, and `others` that of clients left.
    `seconds` and `traffic`, in bytes, are what the repeated steps took in the original run.
    """

    folder: Path
    config: Config
    clients: tuple[int, ...]
    names: list[str]
    way: Way
    begins: int
    steps: int
    others: int
    checkpoint: dict[str, Any] | None
    seconds: float
    traffic: int

    def sentence(self) -> str:
        """Describe in a sentence what will be done, and what it costs."""
        each = [client_name(at, self.names) for at in self.clients]
        called = f"Client{'' if len(each) == 1 else 's'} {join_words(each)}"
        others = f"the other {pluralize(self.others, 'client')}" if self.others > 1 else "the other client"
        if self.way == "exact":
            method = self.config.method
            kept = method.remains() if isinstance(method, CanForget) else ""
            stays = f" What stays: {kept}." if kept else ""
            return (
                f"{called} will be left out of what {others} have sent: clusters are formed again, and nobody is asked "
                f"for anything.{stays}"
            )
        start = "the start" if self.checkpoint is None else f"step {self.begins + 1}"
        return (
            f"{called} will be left out by running again from {start}: "
            f"{pluralize(self.steps, 'step')}, which took {self.seconds:.1f} s and {format_bytes(self.traffic)} with "
            f"all clients; {others} compute and send again."
        )


def plan_forgetting(folder: Path, clients: Sequence[int | str], retrain: bool = False) -> ForgettingPlan:
    """Plan how clients can be forgotten, and what it costs, without changing anything.

    `clients` are positions or names; with `retrain` all is run again even where the method can leave a client out
    exactly. Raises FedkinError if `folder` holds no finished run, a client does not exist, took no part or is forgotten
    already, no client would be left, or a real federation's run would have to be repeated.
    """
    before, checkpoint = run_config(folder), finished_checkpoint(folder)
    is_real = (folder / LEDGER).is_file()
    population = Population([], None, [], names=load_found(folder).clients) if is_real else before.population()
    names, count = population.names, max(len(population.names), len(population.clients))
    last = int(checkpoint["state"]["steps"])
    chosen = sorted({_taking_part(folder, one, population, count, before, last) for one in clients})
    if not chosen:
        raise FedkinError("No client to forget was given.")
    forgotten = [*before.engine.forgotten, *(names[at] if names else at for at in chosen)]
    if len(forgotten) >= count:
        raise FedkinError(f"{folder} has no other clients; nothing would be left.")
    config = run_config(folder, [f"engine.forgotten={json.dumps(forgotten, ensure_ascii=False)}"])
    state = None if retrain else _without(config, checkpoint, chosen)
    way: Way = "retrained" if state is None else "exact"
    begins, tree = 0, None
    if state is not None:
        begins, tree = int(state["steps"]), {**checkpoint, "state": state}
    elif is_real:
        raise FedkinError(
            f"The part of {names[chosen[0]]} in {folder} cannot be separated from the others'; only a run without it "
            "forgets it: list the other clients in [federation], and run the experiment with another out."
        )
    else:
        begins, tree = _kept_before(folder, population, chosen, last)
    records, timing = read_records(folder, last), read_timing(folder)
    traffic = [0, *(line["sent"] + line["received"] for line in records)]
    seconds = sum(line.get("seconds", 0.0) for line in timing if line["step"] > begins or not tree)
    others = count - len(forgotten) - len(population.absent)
    return ForgettingPlan(
        folder, config, tuple(chosen), names, way, begins, last - begins, others, tree and _cleared(tree, chosen),
        seconds, traffic[last] - traffic[begins],
    )  # fmt: skip


def _taking_part(folder: Path, client: int | str, population: Population, count: int, config: Config, last: int) -> int:
    """Return the position of a client, and check that it took part in the run."""
    names = population.names
    at = position_of(client, names, count)
    if at is None:
        listed = f", or {join_words(short_names(names))}" if names else ""
        raise FedkinError(f"{folder} has no client {client}; allowed: 0 to {count - 1}{listed}.")
    if at in config.engine.forgotten or (names and names[at] in config.engine.forgotten):
        raise FedkinError(f"Client {client_name(at, names)} of {folder} is forgotten already.")
    if at in population.away(last):
        raise FedkinError(f"Client {client_name(at, names)} took no part in {folder}; there is nothing to forget.")
    return at


def _without(config: Config, checkpoint: dict[str, Any], clients: Sequence[int]) -> dict[str, Any] | None:
    """Return the method's state before its last step without these clients; ``None`` if they cannot be separated."""
    method = config.method
    if not isinstance(method, CanForget):
        return None
    state = method.without(restore(method.state_type, checkpoint["state"]), clients)
    return None if state is None else dict(state.tree())


def _kept_before(
    folder: Path, population: Population, clients: Sequence[int], last: int
) -> tuple[int, dict[str, Any] | None]:
    """Return the last step kept before any of the clients took part, and its checkpoint."""
    steps = [int(path.stem) for path in (folder / KEPT).glob("*.safetensors") if path.stem.isdecimal()]
    for step in sorted((one for one in steps if one < last), reverse=True):
        if set(clients) <= population.away(step):
            return step, load_checkpoint(kept_checkpoint(folder, step))
    return 0, None


def _cleared(checkpoint: dict[str, Any], clients: Sequence[int]) -> dict[str, Any]:
    """Return a checkpoint without the clients' own states, keys and reasons for being left out."""
    forgotten = {str(at) for at in clients}
    cleared = dict(checkpoint)
    for name in ("keys", "signed", "left_out"):
        if name in cleared:
            cleared[name] = {at: one for at, one in cleared[name].items() if at not in forgotten}
    cleared["clients"] = {at: {} if at in forgotten else state for at, state in cleared["clients"].items()}
    return cleared
