"""What leaves a client, message by message, in words for those who decide whether a site takes part.

All of it is made from what a method declares and a federation has counted: the tasks that clients were asked for, their
docstrings, forms of replies and marks, so that a method of one's own is told of like any other.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from fedkin.core import Client, Task
from fedkin.core.client import Table
from fedkin.core.files import read_json
from fedkin.core.method import SendsBits, allowed_for_sums, with_server_data
from fedkin.core.replies import MAX_UPDATE, Array
from fedkin.core.runner import Runner
from fedkin.core.tasks import known_task
from fedkin.data.preparation import prepare
from fedkin.data.profile import profile_clusters
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.experiment.config import Config, load_config, preparing_for
from fedkin.experiment.run_folder import CHECKPOINT, LEDGER, is_update, load_checkpoint, run_config
from fedkin.privacy.accounting import MEANINGFUL_EPSILON
from fedkin.report.figures import PagePart, PageView, ResultTable, TableCell
from fedkin.report.numbers import format_bytes, join_words, pluralize
from fedkin.secure_aggregation.client_tasks import MIN_CLIENTS
from fedkin.secure_aggregation.sums import ClientSums, HiddenSums, secure

MESSAGES, PAGE = "messages.json", "disclosure.html"
"""What a run's clients were asked for, and the page about it."""
_CLIENTS, _ROWS, _STEPS, _SECONDS = 4, 1_000, 3, 20.0  # of a rehearsal, so that it is short; rounds repeat themselves
_SUMS = "fedkin.secure_aggregation"
_NO_LIMIT = "not limited"


@dataclass(frozen=True)
class Message:
    """What clients reply to one task, as far as it is known without their data.

    Attributes
    ----------
    task : str
        ``module.function``.
    what : str
        What is sent, in the words of the task.
    meaning : str
        The same for someone who does not compute; empty where no term is known.
    often : str
        How often, in words.
    smallest : str
        How few rows can be behind a number, in words.
    summed : bool
        Whether the server sees sums over several clients alone.
    size : int
        Bytes of the largest reply; 0 if none was sent yet.
    """

    task: str
    what: str
    meaning: str
    often: str
    smallest: str
    summed: bool = False
    size: int = 0

    def sentence(self) -> str:
        """Return all that is known of it in a line."""
        words = f"{self.meaning} ({self.what[:1].lower()}{self.what[1:]})" if self.meaning else self.what
        size = f"at most {format_bytes(self.size)}" if self.size else ""
        known = "; ".join(filter(None, [self.often, f"rows behind a number: {self.smallest}", size]))
        return f"{words}: {known}."


@dataclass(frozen=True)
class Disclosure:
    """What leaves a client by a method with its settings.

    `messages` are those that were sent, `possible` those that the method can ask for besides, and `silent` counts the
    tasks that nothing is replied to. `settings` and `readers` are sentences on what protects, and on what whoever reads
    the messages can find out.
    """

    method: str
    lead: str
    messages: Sequence[Message]
    possible: Sequence[Message]
    silent: int
    settings: Sequence[str]
    readers: Sequence[str]

    def to_json(self) -> str:
        """Return all of it as JSON text."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=2) + "\n"

    def sentences(self) -> list[str]:
        """Return it as paragraphs for a terminal, which is too narrow for the table."""
        lists = [f"- {each.sentence()}" for each in self.messages]
        if self.possible:
            lists += ["The method can also ask for:", *(f"- {each.sentence()}" for each in self.possible)]
        return [self.lead, *self.settings, *self.readers, "Clients reply with:", *lists]

    def part(self) -> PagePart:
        """Return it as a section of a page."""
        silent = f"Besides, clients were asked {pluralize(self.silent, 'thing')} to which nothing is replied."
        tables = [_table("", silent if self.silent else "", self.messages)]
        if self.possible:
            caption = "With other data or settings the method asks for some of this, too, or instead."
            tables.append(_table("What else the method can ask for", caption, self.possible))
        texts = [self.lead, *self.settings, *self.readers]
        return PagePart("disclosure", "What leaves a client", paragraphs=texts, figures=tables)

    def page(self) -> PageView:
        """Return it as a page of its own, to be printed."""
        part = self.part()
        protection = PagePart("protection", "What protects, and what a reader can find out", notes=part.paragraphs[1:])
        messages = PagePart("messages", "Message by message", figures=part.figures)
        return PageView(f"What leaves a client: {self.method}", self.lead, parts=[protection, messages])


def _table(title: str, caption: str, messages: Sequence[Message]) -> ResultTable:
    heads = ["in the method's words", "how often", "fewest rows behind a number", "largest"]
    rows = []
    for each in messages:
        size = format_bytes(each.size) if each.size else "–"
        cells = (each.what if each.meaning else "–", each.often or "–", each.smallest, size)
        rows.append((each.meaning or each.what, [*map(TableCell, cells)]))
    return ResultTable(title, caption, "what a client sends", heads, rows)


_MEANINGS = {
    r"\bkeys?\b|mask": "Secret numbers that cancel out in the sum",
    r"nois": "Numbers to which chance was added, so that no single row can be seen in them",
    r"\bbits?\b|\bcodes?\b": "A summary in short numbers, made by a network",
    r"micro-cluster": "Small groups of rows that are much alike: their middle, and how many rows they have",
    r"cent(?:roid|re)|\bseeds?\b|local cluster": "Groups of rows: their middle, and how many rows they have",
    r"model|update|gradient|autoencoder|parameters": "What training on the client's rows has changed in a network",
    r"scatter|product|squares|deviations|covariance|vectors|subspace": "How much values differ, and which columns rise "
    "and fall together",
    r"minimum|lowest": "The smallest and the largest values, and how large values are on average",
    r"\blies? in each bin|histogram": "How many rows have values in which range",
    r"\bsums? (?:by|of each|and)|\bmeans?\b|count, sum|values of columns": "How many rows there are, and how large "
    "their values are on average",
    r"\bloss|\berror": "How often or how far a model is wrong on the client's rows",
    r"shape|names? of|columns": "What columns there are, or how large a picture is",
}
"""What terms of the tasks' docstrings mean to someone who does not compute, the more particular first."""


def messages_of(config: Config, by_task: Mapping[str, Mapping[str, int]], steps: int) -> tuple[list[Message], int]:
    """Return a message for each task of `by_task`, as of `Federation`, and the number of those without a reply."""
    messages, silent = [], 0
    for key, counted in by_task.items():
        name, _, summed = key.partition(":")
        if not counted.get("bytes"):
            silent += 1
            continue
        if summed or not name.startswith(f"{_SUMS}."):
            messages.append(_message(config, known_task(summed or name), counted, steps, bool(summed)))
    if any(name.startswith(f"{_SUMS}.") for name in by_task):
        what = "Keys, and shares of keys that others keep sealed, for sums under masks"
        keys = Message(_SUMS, what, _meaning("keys"), "before and after each sum", "nothing of any row")
        messages.append(keys)
    return messages, silent


def _message(config: Config, task: Task, counted: Mapping[str, int], steps: int, summed: bool) -> Message:
    times, rounds = counted.get("exchanges", 0), getattr(config.method, "rounds", None)
    often = "" if not times else "once" if times == 1 else f"{times} times"
    if rounds is not None and times > 1 and times >= steps - 1:
        often = f"in each round, of {rounds} at most"
    what = words_of(task)
    smallest = _smallest(config, task, counted, summed)
    return Message(task.name, what, _meaning(what), often, smallest, summed, counted.get("bytes", 0))


def _meaning(what: str) -> str:
    return next((meaning for pattern, meaning in _MEANINGS.items() if re.search(pattern, what, re.I)), "")


def words_of(task: Task) -> str:
    """Return what a task sends, from the first sentence of its docstring: what follows ``Send`` or ``Report``."""
    first = " ".join((inspect.getdoc(task.run) or task.name).split("\n\n")[0].split())
    sentence = re.split(r"(?<=[a-z*)`0-9])[.:] (?=[A-Z`*])|\.$", first)[0]
    match = re.search(r"\b(?:sends?|reports?) (?:of )?(.*)", sentence, re.I)
    words = re.sub(r"[`*]|\s*\((?:[a-zA-Z]+,? ?)*\d[^)]*\)|\s*\(algorithm[^)]*\)", "", match[1] if match else sentence)
    return words[:1].upper() + words[1:]


def _smallest(config: Config, task: Task, counted: Mapping[str, int], summed: bool) -> str:
    declared, least = set(task.takes or {}), counted.get("least", 0)
    if not least and declared & {"least", "members"}:
        least = getattr(config.method, "members" if "members" in declared else "min_members", 0)
    if not least and "min_members" in declared:
        least = config.data.min_members
    if task.moves_data:
        return "a single row: the rows themselves"
    if set(task.holds) <= _FACTS:
        return "nothing of any row"
    if summed:
        return f"all of {MIN_CLIENTS} clients or more: only sums are seen"
    if task.accounted:
        return "hidden by noise"
    if _tells_extremes(task):
        return "a single row: smallest and largest values are of real rows"
    return f"at least {least}" if least > 1 else _NO_LIMIT


def _tells_extremes(task: Task) -> bool:
    return task.extremes or not {"min", "max", "least", "greatest"}.isdisjoint(task.holds)


_FACTS = frozenset({"shape", "scaled", "names", "plain", "flat", "unit", "blocks", "samples", "classes", "encoder"})
"""Entries of replies that describe the data as a whole: names and kinds of columns, and how many rows there are."""


def possible_messages(config: Config, seen: Collection[str]) -> list[Message]:
    """Return messages of the method's tasks that are not among the names `seen`, as far as they reply anything."""
    tasks = {
        task.name: task
        for module in modules_of(type(config.method).__module__)
        for task in vars(import_module(module)).values()
        if isinstance(task, Task) and task.name.rpartition(".")[0] == module
    }
    return [
        _message(config, task, {}, 0, False)
        for name, task in sorted(tasks.items())
        if name not in seen and (task.holds or task.may_hold)
    ]


@cache
def modules_of(method: str) -> frozenset[str]:
    """Return the modules that a method's tasks may be in: its own, and those of its package that they import from.

    No method of fedkin's imports another, so that these do not hold the tasks of another.
    """
    package = "fedkin.methods" if method.startswith("fedkin.") else method.partition(".")[0]
    modules, pending = set[str](), [method]
    while pending:
        if (name := pending.pop()) not in modules:
            modules.add(name)
            pending += _imported(import_module(name), package)
    return frozenset(modules)


def _imported(module: ModuleType, package: str) -> Iterator[str]:
    for value in vars(module).values():
        name = value.name.rpartition(".")[0] if isinstance(value, Task) else getattr(value, "__module__", None)
        name = value.__name__ if isinstance(value, ModuleType) else name
        # Packages are left out: their names import all that is in them.
        is_inside = isinstance(name, str) and f"{name}.".startswith(f"{package}.")
        if isinstance(name, str) and is_inside and not hasattr(sys.modules.get(name), "__path__"):
            yield name


def disclosed(
    config: Config,
    by_task: Mapping[str, Mapping[str, int]],
    steps: int,
    lead: str,
    attack: Mapping[str, Any] | None = None,
    is_open: bool = False,
) -> Disclosure:
    """Return what leaves a client by the experiment `config`, whose federation has counted `by_task` in these `steps`.

    If it `is_open`, what the method can ask for besides is listed, too. `attack` is what ``attack.json`` holds, where
    the run's messages were attacked.
    """
    messages, silent = messages_of(config, by_task, steps)
    seen = {key.partition(":")[2] or key for key in by_task}
    possible = possible_messages(config, seen) if is_open else []
    readers = [*_readers(config, messages), *_attacked(attack)]
    return Disclosure(config.method_name, lead, messages, possible, silent, _settings(config), readers)


def _settings(config: Config) -> list[str]:
    """Say what secure sums and noise change, as the experiment has them or could."""
    method: Any = config.method
    needed = [
        f"`method.{name} = {json.dumps(values[0])}`"
        for name, values in allowed_for_sums(type(method)).items()
        if getattr(method, name) not in values
    ]
    needed += [] if config.data.scaling in ("standard", "none") else ['`data.scaling = "standard"`']
    if config.federation.secure_sums:
        sums = (
            f"Secure sums are on: of what is summed the server sees the sum over {MIN_CLIENTS} clients or more, and "
            "never one client's part."
        )
    elif method.traits.sums_suffice is not None:
        how = join_words(["`federation.secure_sums = true`", *needed])
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
        flips = getattr(method, "flips", None) or [getattr(method, "flip", 0.0)]
        by = "by `method.epsilon`" if epsilon else f"each bit is flipped with a probability of {max(flips):.0%}"
        by = by if getattr(method, "message", "bits") == "bits" else "to its sums"
        noise = f"Noise is added at the client to one message alone, {by}; what training sends has none."
    elif "epsilon" in {each.name for each in fields(method)}:
        noise = "No noise is added. With `method.epsilon` noise at the client would hide single rows."
    else:
        noise = "This method adds no noise that would hide single rows."
    stays = "Rows, and the cluster of each row, stay at their client."
    return ["Rows leave their client." if method.sends_samples() else stays, sums, noise]


def _readers(config: Config, messages: Sequence[Message]) -> list[str]:
    """Say what whoever reads the messages can find out, from their forms."""
    method = config.method
    if method.sends_samples():
        return ["A reader has the rows themselves."]
    sentences = []
    if method.traits.copies_data:
        sentences.append("Made-up rows are sent, and some can be copies of real ones.")
    plain = [known_task(each.task) for each in messages if not each.summed and each.task != _SUMS]
    if any(map(_tells_extremes, plain)):
        sentences.append(
            "The smallest and the largest value of a column are of real rows, without saying of which; a site's policy "
            "can forbid it by `extremes = false`."
        )
    if any(isinstance(form, Array) and form.maximum == MAX_UPDATE for task in plain for form in task.holds.values()):
        sentences.append(
            "From changes of a network a reader can often tell whether a certain row was there, and can sometimes "
            "rebuild rows, above all where there are few; this was not measured here."
        )
    if any(each.smallest.startswith("at least") for each in messages):
        sentences.append(
            "The mean of a few rows that are alike is much like each of them: a reader learns finely what kinds of "
            "rows a client has, and not which row is whose."
        )
    if any(each.smallest == _NO_LIMIT for each in messages) and not method.is_private():
        sentences.append("What is not limited can be of a single row, if a client or a group of its rows has no more.")
    return sentences


def _attacked(tree: Mapping[str, Any] | None) -> list[str]:
    """Say what an attack on a run's messages achieved, at its lowest noise."""
    if tree is None:
        return ["No attack was tried on these messages (`fedkin attack` does for some methods)."]
    flip = min(tree["flips"])
    rebuilt = next(each for each in tree["reconstruction"]["levels"] if each["flip"] == flip)
    guessed = next(each for each in tree["membership"] if each["flip"] == flip)
    chance = 100 / tree["reconstruction"]["samples"]
    return [
        f"The messages were attacked. Of {tree['reconstruction']['samples']} rows that were rebuilt from messages of "
        f"these rows alone, {100 * rebuilt['recognised']:.0f} % were recognisable, {chance:.1f} % by chance. Whether a "
        f"row was among a client's was guessed right {50 + 50 * guessed['advantage']:.0f} times in 100, 50 by chance."
    ]  # fmt: skip


def disclosure_of_run(folder: Path) -> Disclosure:
    """Return what left the clients of the run in `folder`, finished or not."""
    config, tree = run_config(folder), load_checkpoint(folder / CHECKPOINT) or {"state": {"steps": 0}, "clients": {}}
    path, attack = folder / MESSAGES, folder / "attack.json"
    by_task = read_json(path, dict[str, dict[str, int]]) if path.is_file() else tree.get("by_task", {})
    attacked = read_json(attack, dict[str, Any]) if attack.is_file() else None
    lead = lead_of((folder / LEDGER).is_file(), config.evaluation.like if is_update(tree) else None)
    return disclosed(config, by_task, tree["state"]["steps"], lead, attacked)


def lead_of(real: bool, updated: str | None = None) -> str:
    """Return what a run's messages were; `updated` is the run that it updates, whose messages are counted, too."""
    lead = (
        "This is what the clients of this run sent to the server."
        if real
        else "This run's clients were simulated on one machine, which nothing left; real ones would send this to the "
        "server."
    )
    return lead if updated is None else f"{lead} It updates {updated}: what was sent there and before is counted, too."


class _Rehearsal(LocalFederation):
    """A few clients in this process, whose sums are as between machines."""

    def sums(self) -> ClientSums:
        return HiddenSums(self) if len(self.present) >= MIN_CLIENTS else ClientSums(self)


def _few(client: Client) -> Client:
    """Return a client with some of its rows."""
    rows = torch.arange(min(_ROWS, len(client)))
    return Client(
        client.id, client.x[rows], None if client.y is None else client.y[rows],
        table=None if client.table is None else client.table.rows(rows),
        samples=None if client.samples is None else client.samples.rows(rows),
    )  # fmt: skip


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
        clients = list(map(_few, config.population().clients[:_CLIENTS]))
    fed = _Rehearsal(clients, config.seed)
    with one_thread():
        if config.federation.secure_sums:
            secure(fed, config.method)
        preparation = prepare(fed, preparing_for(config.method, config.data.table))
        method = with_server_data(config.method.for_embeddings(preparation.encoder), preparation.apply)
        runner, began = Runner(method, fed), time.perf_counter()
        state = runner.start()
        while not state.finished and state.steps < _STEPS and time.perf_counter() - began < _SECONDS:
            state = runner.step(state)
        if state.finished and preparation.table is not None and not method.is_private():
            profile_clusters(
                fed, preparation.encoding, int(method.result(state)["n_clusters"]), config.data.min_members
            )
    more = (
        ""
        if state.finished
        else f" Its first {pluralize(state.steps, 'step')} were tried; later ones may ask for more."
    )
    lead = f"This is what clients would send to the server, tried on some rows {source}.{more}"
    return disclosed(config, fed.by_task, state.steps, lead, is_open=True)
