"""Forgetting a client: a finished run without its part, exactly where the method can, else by running again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal

from fedkin.core import FedkinError
from fedkin.core.files import folder_lock
from fedkin.core.progress import Callback, Progress
from fedkin.core.trees import save_tree
from fedkin.data.population import Population
from fedkin.data.preparing.preparation import Preparation
from fedkin.engines.local import LocalFederation
from fedkin.experiment.checkpoint import load_checkpoint, restore
from fedkin.experiment.checksums import write_sums
from fedkin.experiment.client_names import client_name, position_of, short_names
from fedkin.experiment.config import Config
from fedkin.experiment.forgotten import certificates_of, hashes_of, not_covered, remains, write_certificate
from fedkin.experiment.outputs import RESULTS, load_found
from fedkin.experiment.reopening import check_out, finished_checkpoint, reopen
from fedkin.experiment.run import execute, resume
from fedkin.experiment.run_folder import (
    CHECKPOINT,
    CONFIG,
    KEPT,
    LEDGER,
    RECORDS,
    TIMING,
    kept_checkpoint,
    read_records,
    read_timing,
    run_config,
)
from fedkin.experiment.run_loop import RunOutcome, prepare
from fedkin.experiment.words import format_bytes, join_words
from fedkin.report.numbers import pluralize

Way = Literal["exact", "retrained"]
"""How a client is left out: from what the others have sent, or by a run without it."""
_SITES = "clients"


@dataclass(frozen=True)
class ForgettingPlan:
    """What forgetting will do, and what it costs, known before it begins.

    Attributes
    ----------
    folder : Path
        The run's.
    config : Config
        The experiment of the run without the clients.
    clients : tuple of int
        Positions of those that are forgotten now, in order.
    names : list of str
        What all clients are called; empty where positions are all there is.
    way : {"exact", "retrained"}
    begins : int
        Steps that are kept as they are.
    steps : int
        Steps that are done again.
    others : int
        How many clients are left.
    checkpoint : dict or None
        Where the run begins again; ``None`` from the start.
    seconds : float
        What the steps that are done again took before.
    traffic : int
        Bytes that they took, in both directions.
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
        """What will be done, and what it costs."""
        each = [client_name(at, self.names) for at in self.clients]
        called = f"Client{'' if len(each) == 1 else 's'} {join_words(each)}"
        others = f"the other {pluralize(self.others, 'client')}" if self.others > 1 else "the other client"
        if self.way == "exact":
            stays = f" What stays: {type(self.config.method).keeps}." if type(self.config.method).keeps else ""
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
    """Find out how clients can be forgotten, and what it costs; nothing is changed.

    Parameters
    ----------
    folder : Path
        A finished run.
    clients : sequence of int or str
        By position or name.
    retrain : bool
        Whether to run again even where the method can leave a client out exactly.

    Raises
    ------
    FedkinError
        If `folder` holds no finished run, a client is not there, has taken no part or is forgotten already, nobody
        would be left, or a real federation's run would have to be run again.
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


def forget(
    folder: Path,
    clients: Sequence[int | str],
    out: Path | None,
    retrain: bool = False,
    progress: Progress | None = None,
    callbacks: Sequence[Callback] = (),
) -> RunOutcome:
    """Write the run in `folder` without some clients to `out`, as a run of its own, with a certificate.

    Where the method keeps apart what each client has sent, clusters are formed again of what the others have sent
    (`Method.without`): the labels of a run that these clients sent nothing to. Else the run is done again without them,
    from the last checkpoint before they took part, or from the start: the bytes of a run with ``engine.forgotten``.

    Parameters
    ----------
    folder, clients, retrain
        As of `plan_forgetting`.
    out : Path or None
        Empty or absent; ``None`` puts the new run in the place of the old one.
    progress : Progress, optional
        Shows how far it is.
    callbacks : sequence of Callback, optional
        Follow the steps that are done again.

    Returns
    -------
    RunOutcome
        Of a real federation without a word to its sites: they get their new clusters when its server runs the
        experiment of `out`, into `out`.

    Raises
    ------
    FedkinError
        As `plan_forgetting` does, or if `out` is not empty.
    """
    return carry_out(plan_forgetting(folder, clients, retrain), out, progress, callbacks)


def carry_out(
    plan: ForgettingPlan, out: Path | None, progress: Progress | None = None, callbacks: Sequence[Callback] = ()
) -> RunOutcome:
    """Do what `plan_forgetting` has found; see `forget`."""
    folder = plan.folder
    if out is not None:
        check_out(out)
    with folder_lock(folder) if out is None else nullcontext():
        before, earlier = hashes_of(folder), certificates_of(folder)
        target = out or Path(mkdtemp(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent))
        try:
            outcome = _run(plan, target, progress or Progress(), callbacks)
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


def _taking_part(folder: Path, client: int | str, population: Population, count: int, config: Config, last: int) -> int:
    """The position of a client that has taken part."""
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
    """The fields of the method's state before its last step without these clients; ``None`` if it cannot tell them."""
    method = config.method
    if not type(method).forgets:
        return None
    state = method.without(restore(method.state_type, checkpoint["state"]), clients)
    return None if state is None else dict(state.tree())


def _kept_before(
    folder: Path, population: Population, clients: Sequence[int], last: int
) -> tuple[int, dict[str, Any] | None]:
    """The last step whose checkpoint was kept before any of the clients took part, and the checkpoint."""
    steps = [int(path.stem) for path in (folder / KEPT).glob("*.safetensors") if path.stem.isdecimal()]
    for step in sorted((one for one in steps if one < last), reverse=True):
        if set(clients) <= population.away(step):
            return step, load_checkpoint(kept_checkpoint(folder, step))
    return 0, None


def _cleared(checkpoint: dict[str, Any], clients: Sequence[int]) -> dict[str, Any]:
    """A checkpoint without what clients remember, their keys, and why they were left out."""
    gone = {str(at) for at in clients}
    cleared = dict(checkpoint)
    for name in ("keys", "signed", "left_out"):
        if name in cleared:
            cleared[name] = {at: one for at, one in cleared[name].items() if at not in gone}
    cleared["clients"] = {at: {} if at in gone else state for at, state in cleared["clients"].items()}
    return cleared


def _run(plan: ForgettingPlan, out: Path, progress: Progress, callbacks: Sequence[Callback]) -> RunOutcome:
    """Make the run without the clients."""
    if plan.checkpoint is None:
        return execute(plan.config, out, progress, callbacks)
    gone = {str(at) for at in plan.clients}
    files = {RECORDS, TIMING, LEDGER, _SITES}

    def left_out(place: str, names: list[str]) -> set[str]:
        return {name for name in names if (name not in files if Path(place) == plan.folder else name in gone)}

    reopen(plan.folder, out, plan.config, plan.checkpoint, left_out)
    if not (out / LEDGER).is_file():
        return resume(out, progress, callbacks)
    return _without_sites(plan, out, progress, callbacks)


def _without_sites(plan: ForgettingPlan, out: Path, progress: Progress, callbacks: Sequence[Callback]) -> RunOutcome:
    """Form the clusters of a real federation's run here, and leave its last step to be done with its sites."""
    found = load_found(plan.folder)
    population = Population([], None, found.classes, names=found.clients).forgetting(plan.config.engine.forgotten)
    fed = LocalFederation([], plan.config.seed)
    outcome = prepare(plan.config, out, population, fed, progress, callbacks).finish()
    assert plan.checkpoint is not None
    save_tree(out / CHECKPOINT, plan.checkpoint)
    write_sums(out, [CONFIG, *RESULTS])
    return outcome


def _certificate(plan: ForgettingPlan, out: Path, before: dict[str, str], replaced: bool) -> dict[str, Any]:
    """What was done, but for the hashes of the new files."""
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
