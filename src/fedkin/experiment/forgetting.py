"""Forget clients: remove their contribution from a finished run, exactly where the method can, else by retraining."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal, cast

from fedkin.core import FedkinError
from fedkin.core.files import folder_lock, read_json, write_atomically
from fedkin.core.method import CanForget
from fedkin.core.payload import save_tree
from fedkin.core.progress import Progress
from fedkin.data.population import Population, client_name, position_of, short_names
from fedkin.data.preparation import Preparation
from fedkin.engines.local import LocalFederation
from fedkin.experiment.checkpoint import load_checkpoint, restore
from fedkin.experiment.config import Config
from fedkin.experiment.outputs import load_found
from fedkin.experiment.run import RunOutcome, execute, prepare, resume
from fedkin.experiment.run_folder import (
    CHECKPOINT,
    CLIENT_FOLDERS,
    CONFIG,
    KEPT,
    LEDGER,
    MODELS,
    RECORDS,
    RESULT,
    RESULTS,
    TIMING,
    empty_folder,
    finished_checkpoint,
    kept_checkpoint,
    read_records,
    read_timing,
    reopen,
    run_config,
    sha256_of,
    write_sums,
)
from fedkin.report.numbers import format_bytes, join_words, pluralize

FORGOTTEN = "forgotten.json"
_HASHED = (CONFIG, RECORDS, CHECKPOINT, RESULT, MODELS)
"""Files of a run that can contain something of a client."""
_NOT_COVERED = [
    "copies of the run: backups, trackers, reports, models and predictions that were handed out",
    "what other clients have received before and kept",
    "the client's own data, which only the client can delete",
    "what the run before and the run after show together: the difference is of this client",
]
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
        names = join_words([client_name(position, self.names) for position in self.clients])
        subject = f"Client{'' if len(self.clients) == 1 else 's'} {names} will be left out"
        rest = f"the other {pluralize(self.others, 'client')}" if self.others > 1 else "the other client"
        if self.way == "exact":
            remains = _remains(self.config.method)
            return (
                f"{subject} of what {rest} have sent: clusters are formed again, and nobody is asked for anything."
                f"{f' What stays: {remains}.' if remains else ''}"
            )
        start = "the start" if self.checkpoint is None else f"step {self.begins + 1}"
        return (
            f"{subject} by running again from {start}: {pluralize(self.steps, 'step')}, which took {self.seconds:.1f} "
            f"s and {format_bytes(self.traffic)} with all clients; {rest} compute and send again."
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
    positions = sorted({_position(folder, client, population, count, before, last) for client in clients})
    if not positions:
        raise FedkinError("No client to forget was given.")
    forgotten = [*before.federation.forgotten, *(names[position] if names else position for position in positions)]
    if len(forgotten) >= count:
        raise FedkinError(f"{folder} has no other clients; nothing would be left.")
    config = run_config(folder, [f"federation.forgotten={json.dumps(forgotten, ensure_ascii=False)}"])
    method, way, begins, start = config.method, "exact", 0, None
    state = None
    if isinstance(method, CanForget) and not retrain:
        state = method.without(restore(method.state_type, checkpoint["state"]), positions)
    if state is not None:
        begins, start = int(state.steps), {**checkpoint, "state": dict(state.tree())}
    elif is_real:
        raise FedkinError(
            f"The part of {names[positions[0]]} in {folder} cannot be separated from the others'; only a run without "
            "it forgets it: list the other clients in [federation], and run the experiment with another out."
        )
    else:
        way = "retrained"
        stored = [int(path.stem) for path in (folder / KEPT).glob("*.safetensors") if path.stem.isdecimal()]
        for step in sorted((step for step in stored if step < last), reverse=True):
            if set(positions) <= population.away(step):  # the last checkpoint before any of them took part
                begins, start = step, load_checkpoint(kept_checkpoint(folder, step))
                break
    traffic = [0, *(line["sent"] + line["received"] for line in read_records(folder, last))]
    seconds = [line.get("seconds", 0.0) for line in read_timing(folder) if line["step"] > begins or start is None]
    return ForgettingPlan(
        folder, config, tuple(positions), names, cast(Way, way), begins, last - begins,
        count - len(forgotten) - len(population.absent), start and _cleared(start, positions), sum(seconds),
        traffic[last] - traffic[begins],
    )  # fmt: skip


def _position(folder: Path, client: int | str, population: Population, count: int, config: Config, last: int) -> int:
    """Return the position of a client, and check that it took part in the run."""
    names, forgotten = population.names, config.federation.forgotten
    position = position_of(client, names, count)
    if position is None:
        listed = f", or {join_words(short_names(names))}" if names else ""
        raise FedkinError(f"{folder} has no client {client}; allowed: 0 to {count - 1}{listed}.")
    if position in forgotten or (names and names[position] in forgotten):
        raise FedkinError(f"Client {client_name(position, names)} of {folder} is forgotten already.")
    if position in population.away(last):
        raise FedkinError(
            f"Client {client_name(position, names)} took no part in {folder}; there is nothing to forget."
        )
    return position


def _cleared(checkpoint: dict[str, Any], clients: Sequence[int]) -> dict[str, Any]:
    """Return a checkpoint without the clients' own states, keys and reasons for being left out."""
    forgotten = {str(client) for client in clients}
    cleared = dict(checkpoint)
    for name in {"keys", "signed", "left_out"} & checkpoint.keys():
        cleared[name] = {client: value for client, value in checkpoint[name].items() if client not in forgotten}
    cleared["clients"] = {
        client: {} if client in forgotten else state for client, state in checkpoint["clients"].items()
    }
    return cleared


def forget(plan: ForgettingPlan, out: Path | None, progress: Progress | None = None) -> RunOutcome:
    """Write a run without some clients to `out`, as a new run with a certificate.

    Where the method stores each client's contribution separately, clusters are formed again from those of the
    others (`CanForget`), and the labels equal those of a run in which the forgotten clients sent nothing. Otherwise
    the run is repeated without them, from the last checkpoint before they took part or from the start; its files
    equal those of a run with ``federation.forgotten``. The sites of a real federation are not contacted: they get their
    new clusters when the server runs the experiment of `out`, into `out`.

    `out` is empty or absent; with ``None`` the new run takes the place of the old one. Raises FedkinError if `out` is
    not empty, or as running the experiment does.
    """
    folder, progress = plan.folder, progress or Progress()
    if out is not None:
        with empty_folder(out):
            return _write(plan, out, progress)
    with folder_lock(folder):
        target = Path(mkdtemp(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent))
        try:
            outcome = _write(plan, target, progress, replaced=True)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
        old = folder.with_name(f".{folder.name}.old.partial")
        folder.replace(old)
        target.replace(folder)
        shutil.rmtree(old)
    return replace(outcome, folder=folder)


def _write(plan: ForgettingPlan, out: Path, progress: Progress, replaced: bool = False) -> RunOutcome:
    """Write the run without the forgotten clients and its certificate; `replaced` is whether the old run goes."""
    certificates = plan.folder / FORGOTTEN
    earlier = read_json(certificates, list[dict[str, Any]]) if certificates.exists() else []
    before = _hashes(plan.folder)
    outcome = _run_without(plan, out, progress)
    exact = plan.checkpoint is not None and plan.way == "exact"
    certificate = {
        "method": plan.config.method_name,
        "clients": [
            {"position": position, "name": plan.names[position] if plan.names else None} for position in plan.clients
        ],
        "way": plan.way,
        "kept_steps": plan.begins,
        "steps_done_again": plan.steps,
        "others_asked_again": plan.way == "retrained",
        "still_hold": _still_held(plan, out, Preparation.from_tree(plan.checkpoint["preparation"]) if exact else None),  # type: ignore[index]
        "not_covered": [
            *([] if replaced else [f"the run {plan.folder.name}, which holds all it held"]), *_NOT_COVERED
        ],
        "before": before,
        "after": _hashes(out),
    }  # fmt: skip
    write_atomically(out / FORGOTTEN, json.dumps([*earlier, certificate], indent=2, ensure_ascii=False) + "\n")
    return outcome


def _run_without(plan: ForgettingPlan, out: Path, progress: Progress) -> RunOutcome:
    """Repeat the run without the forgotten clients."""
    if plan.checkpoint is None:
        return execute(plan.config, out, progress)
    forgotten = {str(position) for position in plan.clients}
    files = {RECORDS, TIMING, LEDGER, CLIENT_FOLDERS}

    def left_out(place: str, names: list[str]) -> set[str]:
        return {name for name in names if (name not in files if Path(place) == plan.folder else name in forgotten)}

    reopen(plan.folder, out, plan.config, plan.checkpoint, left_out)
    if not (out / LEDGER).is_file():
        return resume(out, progress)
    # A real federation's clusters are formed here without its sites, whose last step the server does later.
    saved = load_found(plan.folder)
    population = Population([], None, saved.classes, names=saved.clients).forgetting(plan.config.federation.forgotten)
    fed = LocalFederation([], plan.config.seed)
    outcome = prepare(plan.config, out, population, fed, progress).finish()
    save_tree(out / CHECKPOINT, plan.checkpoint)
    write_sums(out, [CONFIG, *RESULTS])
    return outcome


def _hashes(folder: Path) -> dict[str, str]:
    return {name: sha256_of(folder / name) for name in _HASHED if (folder / name).is_file()}


def _still_held(plan: ForgettingPlan, out: Path, preparation: Preparation | None) -> list[dict[str, str]]:
    """List what the files in `out` still hold of the forgotten clients: ``file`` and ``what``.

    `preparation` says how samples were prepared, if the clients took part in that and in the kept steps.
    """
    held = [{"file": CONFIG, "what": "its name or position, by which the run leaves it out"}]
    every = (plan.names, short_names(plan.names))
    names = {each[position] for position in plan.clients for each in every if position < len(each)}
    texts = [path for path in sorted(out.rglob("*")) if path.suffix in (".toml", ".jsonl", ".json", ".csv", ".html")]
    for path in texts:
        if path.name not in (CONFIG, LEDGER, FORGOTTEN) and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            if any(name in text for name in names):
                held.append({"file": path.relative_to(out).as_posix(), "what": "its name"})
    if (out / LEDGER).is_file():
        held.append({"file": LEDGER, "what": "its name, identity and key, which keep its seat from others"})
    if plan.begins:
        when = "step 1" if plan.begins == 1 else f"steps 1 to {plan.begins}"
        what = (
            f"scores of {when} on a test of which its samples are a part, if there is one"
            if preparation is None
            else f"that it answered in {when}, and bytes of its replies"
        )
        held.append({"file": RECORDS, "what": what})
    remains = [] if preparation is None else kept_of(plan.config.method, preparation)
    files = [name for name in (CHECKPOINT, RESULT, MODELS) if (out / name).is_file()]
    return held + [{"file": name, "what": what} for what in remains for name in files]


def kept_of(method: Any, preparation: Preparation) -> list[str]:
    """Describe what remains of a client that the method has left out exactly."""
    facts = [remains] if (remains := _remains(method)) else []
    if preparation.mode in ("standard", "common"):
        facts.append("how samples are scaled and encoded, found from sums over all clients' samples")
    return facts


def _remains(method: Any) -> str:
    return method.remains() if isinstance(method, CanForget) else ""
