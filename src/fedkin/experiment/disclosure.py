"""What leaves a client, message by message, in words for those who decide whether a site takes part.

All of it is made from what a method and its tasks declare, and a federation has counted, so that a method of one's own
is told of like any other.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from fedkin.core import Client, Task
from fedkin.core.client import Table
from fedkin.core.files import read_json
from fedkin.core.method import SendsBits, allowed_for_sums
from fedkin.core.replies import MAX_UPDATE, Array
from fedkin.core.runner import Runner
from fedkin.core.tasks import known_task
from fedkin.data.cluster_words import words_of_clusters
from fedkin.data.preparation import prepare
from fedkin.data.profile import profile_clusters
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.engines.site import SUMS
from fedkin.experiment.config import Config, load_config
from fedkin.experiment.run_folder import CHECKPOINT, LEDGER, MESSAGES, is_update, load_checkpoint, run_config
from fedkin.privacy.randomised_response import MEANINGFUL_EPSILON
from fedkin.report.figures import PagePart, PageView, ResultTable, TableCell
from fedkin.report.numbers import format_bytes, join_words, pluralize
from fedkin.secure_aggregation.client_tasks import MIN_CLIENTS, send_key
from fedkin.secure_aggregation.sums import HiddenSums, secure

PAGE = "disclosure.html"
"""What a run's clients were asked for, and the page about it."""
_CLIENTS, _ROWS, _STEPS, _SECONDS = 4, 1_000, 3, 20.0  # of a rehearsal, so that it is short; rounds repeat themselves
_FEWEST = {
    "one": "not limited", "none": "nothing of any row", "noise": "hidden by noise",
    "extremes": "a single row: smallest and largest values are of real rows",
}  # fmt: skip


@dataclass(frozen=True)
class Message:
    """What clients reply to one `task`, as far as it is known without their data.

    In words: `what` the task says of its replies, how `often`, and how few rows can be behind a number at the
    `smallest`. If it is `summed`, the server sees sums over several clients alone; `size` are bytes of the largest
    reply.
    """

    task: str
    what: str
    often: str
    smallest: str
    summed: bool = False
    size: int = 0


@dataclass(frozen=True)
class Disclosure:
    """What leaves a client by a method with its settings: the `messages` that were sent.

    `notes` are sentences on what protects, and on what whoever reads the messages can find out.
    """

    method: str
    lead: str
    messages: Sequence[Message]
    notes: Sequence[str]

    def to_json(self) -> str:
        """Return all of it as JSON text."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=2) + "\n"

    def sentences(self) -> list[str]:
        """Return it as paragraphs for a terminal, which is too narrow for the table."""
        parts = [(each.what, each.often, f"rows behind a number: {each.smallest}") for each in self.messages]
        return [self.lead, *self.notes, "Clients reply with:", *(f"- {'; '.join(part)}." for part in parts)]

    def part(self) -> PagePart:
        """Return it as a section of a page."""
        heads = ["how often", "fewest rows behind a number", "largest"]
        rows = [
            (each.what, [*map(TableCell, (each.often, each.smallest, format_bytes(each.size) if each.size else "–"))])
            for each in self.messages
        ]
        table = ResultTable("", "", "what a client sends", heads, rows)
        return PagePart("disclosure", "What leaves a client", paragraphs=[self.lead, *self.notes], figures=[table])

    def page(self) -> PageView:
        """Return it as a page of its own, to be printed."""
        return PageView(f"What leaves a client: {self.method}", "", parts=[self.part()])


def disclosed(config: Config, by_task: Mapping[str, Mapping[str, int]], steps: int, lead: str) -> Disclosure:
    """Return what leaves a client by the experiment `config`, of which `by_task` was counted in so many `steps`."""
    replied = {name: counts for name, counts in by_task.items() if counts.get("bytes")}
    messages = []
    for name, counts in replied.items():
        summed = name.partition(":")[2]
        if summed or not name.startswith(SUMS):
            messages.append(_message(config, known_task(summed or name), counts, steps, bool(summed)))
    if any(name.startswith(SUMS) for name in replied):
        messages.append(Message(SUMS, send_key.sends, "at each sum", _FEWEST["none"]))
    notes = [*_protection(config), *_readers(config, messages)]
    return Disclosure(config.method_name, lead, messages, notes)


def _message(config: Config, task: Task, counted: Mapping[str, int], steps: int, summed: bool) -> Message:
    times, rounds = counted["exchanges"], getattr(config.method, "rounds", None)
    often = "once" if times == 1 else f"{times} times"
    if rounds is not None and times > 1 and times >= steps - 1:
        often = f"in each round, of {rounds} at most"
    smallest = _FEWEST.get(task.fewest) or f"at least {counted.get('least') or config.data.min_members}"
    if summed and task.fewest != "none":
        smallest = f"all of {MIN_CLIENTS} clients or more: only sums are seen"
    return Message(task.name, task.sends or task.name, often, smallest, summed, counted["bytes"])


def _protection(config: Config) -> list[str]:
    """Say what secure sums and noise change, as the experiment has them or could."""
    method: Any = config.method
    if config.federation.secure_sums:
        sums = (
            f"Secure sums are on: of what is summed the server sees the sum over {MIN_CLIENTS} clients or more, and "
            "never one client's part."
        )
    elif method.traits.sums_suffice is not None:
        allowed = allowed_for_sums(type(method)).items()
        settings_needed = [f"`method.{name} = {json.dumps(values[0])}`" for name, values in allowed
                  if getattr(method, name) not in values]  # fmt: skip
        settings_needed += [] if config.data.scaling in ("standard", "none") else ['`data.scaling = "standard"`']
        how = join_words(["`federation.secure_sums = true`", *settings_needed])
        sums = f"Secure sums are off. With {how} the server would see sums over {MIN_CLIENTS} clients or more alone."
    else:
        sums = "This method needs the message of each client, so secure sums cannot hide it."
    epsilon = getattr(method, "epsilon", None)
    if method.is_private() and epsilon is not None:
        noise = (
            f"Noise is added at the client, with an epsilon of {epsilon:g}: with 1, hardly anything tells whether one "
            f"row was there; with {MEANINGFUL_EPSILON:g} or more, nothing is promised."
        )
    elif isinstance(method, SendsBits):
        flip = getattr(method, "flip", 0.0)
        by = "by `method.epsilon`" if epsilon else f"each bit is flipped with a probability of {flip:.0%}"
        by = by if getattr(method, "message", "bits") == "bits" else "to its sums"
        noise = f"Noise is added at the client to one message alone, {by}; what training sends has none."
    else:
        has_epsilon = "epsilon" in {each.name for each in fields(method)}
        would = " With `method.epsilon` noise at the client would hide single rows." if has_epsilon else ""
        noise = f"No noise is added.{would}"
    stays = "Rows, and the cluster of each row, stay at their client."
    return ["Rows leave their client." if method.sends_samples() else stays, sums, noise]


def _readers(config: Config, messages: Sequence[Message]) -> list[str]:
    """Say what whoever reads the messages can find out, from their forms."""
    plain = [known_task(each.task) for each in messages if not each.summed and each.task != SUMS]
    forms = [form for task in plain for form in task.holds.values()]
    is_private, limits = config.method.is_private(), {task.fewest for task in plain}
    sentences = {
        "Made-up rows are sent, and some can be copies of real ones.": config.method.traits.copies_data,
        "The smallest and the largest value of a column are of real rows, without saying of which; a site's policy can "
        "forbid it by `extremes = false`.": "extremes" in limits,
        "From changes of a network a reader can often tell whether a certain row was there, and can sometimes rebuild "
        "rows, above all where there are few; this was not measured here.":
            any(isinstance(form, Array) and form.maximum == MAX_UPDATE for form in forms),
        "The mean of a few rows that are alike is much like each of them: a reader learns finely what kinds of rows a "
        "client has, and not which row is whose.": not limits.isdisjoint(("least", "members", "min_members")),
        "What is not limited can be of a single row, if a client or a group of its rows has no more.":
            "one" in limits and not is_private,
    }  # fmt: skip
    return [sentence for sentence, holds in sentences.items() if holds]


def disclosure_of_run(folder: Path) -> Disclosure:
    """Return what left the clients of the run in `folder`, finished or not."""
    config, tree = run_config(folder), load_checkpoint(folder / CHECKPOINT) or {"state": {"steps": 0}, "clients": {}}
    path = folder / MESSAGES
    by_task = read_json(path, dict[str, dict[str, int]]) if path.is_file() else tree.get("by_task", {})
    lead = lead_of((folder / LEDGER).is_file(), config.evaluation.like if is_update(tree) else None)
    return disclosed(config, by_task, tree["state"]["steps"], lead)


def lead_of(real: bool, updated: str | None = None) -> str:
    """Return what a run's messages were; `updated` is the run that it updates, whose own page has those before."""
    lead = (
        "This is what the clients of this run sent to the server."
        if real
        else "This run's clients were simulated on one machine, which nothing left; real ones would send this to the "
        "server."
    )
    return lead if updated is None else f"{lead} It updates {updated}, whose page has what was sent before."


def _made_up() -> list[Client]:
    """Return clients with labelled rows around ten points, in place of sites whose rows only they know."""
    rng = torch.Generator().manual_seed(0)
    y, points = torch.arange(_ROWS) % 10, 5 * torch.randn(10, 6, generator=rng)
    rows = [points[y] + torch.randn(_ROWS, 6, generator=rng) for _ in range(_CLIENTS)]
    names = [f"column {i + 1}" for i in range(6)]
    return [Client(i, x, y, table=Table.of_numbers(x.double(), names)) for i, x in enumerate(rows)]


def rehearsed(experiment: str, settings: Sequence[str] = ()) -> Disclosure:
    """Return what would leave the clients of an experiment, which is tried on some rows of a few clients.

    Sites of a real federation are played by made-up rows. Raises FedkinError if the experiment is refused.
    """
    config, source = load_config(experiment, settings), "of its own data"
    if config.data.source == "federation":
        clients, source = _made_up(), "that are made up, in place of the sites'"
    else:
        clients = [each.rows(torch.arange(min(_ROWS, len(each)))) for each in config.population().clients[:_CLIENTS]]
    fed = LocalFederation(clients, config.seed)
    if len(clients) >= MIN_CLIENTS:
        fed.sums = lambda: HiddenSums(fed)  # type: ignore[method-assign]  # as between machines
    if config.federation.secure_sums:
        secure(fed, config.method)
    with one_thread():
        preparation = prepare(fed, config.data.table.of(config.method))
        method = config.method.for_embeddings(preparation.encoder).with_server_data(preparation.apply)
        runner, began = Runner(method, fed), time.perf_counter()
        state = runner.start()
        while not state.finished and state.steps < _STEPS and time.perf_counter() - began < _SECONDS:
            state = runner.step(state)
        if state.finished and method.traits.clusters == "samples" and not method.is_private():
            n_clusters, least = int(method.result(state)["n_clusters"]), config.data.min_members
            if preparation.table is not None:
                profile_clusters(fed, preparation.table, n_clusters, least)
            if preparation.has_texts:
                words_of_clusters(fed, n_clusters, least)
    tried = f" Its first {pluralize(state.steps, 'step')} were tried; later ones may ask for more."
    lead = f"This is what clients would send to the server, tried on some rows {source}."
    lead += "" if state.finished else tried
    return disclosed(config, fed.by_task, state.steps, lead)
