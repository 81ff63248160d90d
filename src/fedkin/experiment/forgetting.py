"""Forget clients: remove their contribution from a finished run, exactly where the method can, else by retraining."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal

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
_TEXTS = (".toml", ".jsonl", ".json", ".csv", ".html")
_NOT_COVERED = [
    "copies of the run: backups, trackers, reports, models and predictions that were handed out",
    "what other clients have received before and kept",
    "the client's own data, which only the client can delete",
    "what the run before and the run after show together: the difference is of this client",
]


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
    folder = plan.folder
    if out is not None:
        with empty_folder(out):
            return _write(plan, out, progress or Progress())
    with folder_lock(folder):
        target = Path(mkdtemp(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent))
        try:
            outcome = _write(plan, target, progress or Progress(), replaced=True)
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
    before, earlier = hashes_of(plan.folder), certificates_of(plan.folder)
    outcome = _run(plan, out, progress)
    write_certificate(out, earlier, _certificate(plan, out, before, replaced))
    return outcome


def _run(plan: ForgettingPlan, out: Path, progress: Progress) -> RunOutcome:
    """Repeat the run without the forgotten clients."""
    if plan.checkpoint is None:
        return execute(plan.config, out, progress)
    forgotten = {str(at) for at in plan.clients}
    files = {RECORDS, TIMING, LEDGER, CLIENT_FOLDERS}

    def left_out(place: str, names: list[str]) -> set[str]:
        return {name for name in names if (name not in files if Path(place) == plan.folder else name in forgotten)}

    reopen(plan.folder, out, plan.config, plan.checkpoint, left_out)
    if not (out / LEDGER).is_file():
        return resume(out, progress)
    return _without_sites(plan, out, progress)


def _without_sites(plan: ForgettingPlan, out: Path, progress: Progress) -> RunOutcome:
    """Form the clusters of a real federation's run without its sites, whose last step the server does later."""
    found = load_found(plan.folder)
    population = Population([], None, found.classes, names=found.clients).forgetting(plan.config.federation.forgotten)
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


def hashes_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of those files of a run that can contain something of a client."""
    return {name: sha256_of(folder / name) for name in _HASHED if (folder / name).is_file()}


def certificates_of(folder: Path) -> list[dict[str, Any]]:
    """Read the certificates in a run's folder, the oldest first; empty if no client was forgotten.

    Raises FedkinError if they cannot be read.
    """
    path = folder / FORGOTTEN
    return read_json(path, list[dict[str, Any]]) if path.exists() else []


def write_certificate(out: Path, earlier: Sequence[dict[str, Any]], certificate: dict[str, Any]) -> None:
    """Write ``forgotten.json``: the `earlier` certificates, and this one with the hashes of the files in `out`."""
    whole = [*earlier, {**certificate, "after": hashes_of(out)}]
    write_atomically(out / FORGOTTEN, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")


def not_covered(before: str, replaced: bool) -> list[str]:
    """List what no certificate covers, such as the old run in the folder `before` unless it was replaced."""
    return [*([] if replaced else [f"the run {before}, which holds all it held"]), *_NOT_COVERED]


def remains(
    out: Path, config: Config, clients: Sequence[int], names: Sequence[str], steps: int, preparation: Preparation | None
) -> list[dict[str, str]]:
    """List what the files in `out`, the folder of a run without `clients`, still hold of these: ``file`` and ``what``.

    `clients` are positions; `names` are given for all clients. `steps` is the number of steps that were kept, not
    repeated; `preparation` says how samples were prepared, if the forgotten clients took part in that and in the kept
    steps.
    """
    found = [{"file": CONFIG, "what": "its name or position, by which the run leaves it out"}]
    called = [name for at in clients for name in {*names[at : at + 1], *short_names(names)[at : at + 1]}]
    texts = sorted(path for path in out.rglob("*") if path.is_file() and path.suffix in _TEXTS)
    named = [path for path in texts if path.name not in (CONFIG, LEDGER, FORGOTTEN)]
    found += [
        {"file": path.relative_to(out).as_posix(), "what": "its name"}
        for path in named
        if any(name in path.read_text(encoding="utf-8", errors="replace") for name in called)
    ]
    if (out / LEDGER).is_file():
        found.append({"file": LEDGER, "what": "its name, identity and key, which keep its seat from others"})
    if steps:
        when = "step 1" if steps == 1 else f"steps 1 to {steps}"
        what = (
            f"scores of {when} on a test of which its samples are a part, if there is one"
            if preparation is None
            else f"that it answered in {when}, and bytes of its replies"
        )
        found.append({"file": RECORDS, "what": what})
    kept = [] if preparation is None else kept_of(config.method, preparation)
    files = [name for name in (CHECKPOINT, RESULT, MODELS) if (out / name).is_file()]
    return found + [{"file": name, "what": what} for what in kept for name in files]


def kept_of(method: Any, preparation: Preparation) -> list[str]:
    """Describe what remains of a client that the method has left out exactly."""
    kept = [stays] if isinstance(method, CanForget) and (stays := method.remains()) else []
    if preparation.mode in ("standard", "common"):
        kept.append("how samples are scaled and encoded, found from sums over all clients' samples")
    return kept


# Plan of forgetting clients: how it will be done and what it costs, before anything is changed.


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
    forgotten = [*before.federation.forgotten, *(names[at] if names else at for at in chosen)]
    if len(forgotten) >= count:
        raise FedkinError(f"{folder} has no other clients; nothing would be left.")
    config = run_config(folder, [f"federation.forgotten={json.dumps(forgotten, ensure_ascii=False)}"])
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
    if at in config.federation.forgotten or (names and names[at] in config.federation.forgotten):
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
