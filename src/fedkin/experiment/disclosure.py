"""What leaves a client, message by message, in words for those who decide whether a site takes part.

All of it is made from what a method and its tasks declare, and a federation has counted, so that a method of one's own
is told of like any other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from fedkin.core import Task
from fedkin.core.files import read_json
from fedkin.core.method import SendsBits, allowed_for_sums
from fedkin.core.payload import MAX_UPDATE, Array
from fedkin.core.tasks import known_task
from fedkin.engines.site import SUMS
from fedkin.experiment.config import Config
from fedkin.experiment.run_folder import LEDGER, MESSAGES, RECORDS, check_finished, read_lines, run_config
from fedkin.privacy.randomised_response import MEANINGFUL_EPSILON
from fedkin.report.figures import PagePart, ResultTable, Row, TableCell
from fedkin.report.numbers import format_bytes, join_words
from fedkin.secure_aggregation.client_tasks import MIN_CLIENTS, send_key

PAGE = "disclosure.html"
"""What a run's clients were asked for, and the page about it."""
_FEWEST = {
    "one": "not limited", "none": "nothing of any row", "noise": "hidden by noise",
    "extremes": "a single row: smallest and largest values are of real rows",
}  # fmt: skip


def disclosure_of_run(folder: Path) -> PagePart:
    """Return what left the clients of the finished run in `folder`."""
    check_finished(folder)
    return disclosed(run_config(folder), folder, len(read_lines(folder / RECORDS)))


def disclosed(config: Config, folder: Path, steps: int) -> PagePart:
    """Return what left the clients of a run in `folder` of so many `steps`, whose messages have been counted there.

    A row of the table is a message: what the task says of its replies, how often it was sent, how few rows can be
    behind a number at the smallest, and the bytes of the largest reply. Paragraphs say what protects, and what whoever
    reads the messages can find out.
    """
    lead = "This is what the clients of this run sent to the server."
    if not (folder / LEDGER).is_file():
        lead = (
            "This run's clients were simulated on one machine, which nothing left; real ones would send this to the "
            "server."
        )
    replied = {
        name: counts
        for name, counts in read_json(folder / MESSAGES, dict[str, dict[str, int]]).items()
        if counts.get("bytes")
    }
    rows, seen = list[Row](), list[Task]()
    for name, counts in replied.items():
        summed = name.partition(":")[2]  # of which the server sees sums over several clients alone
        if summed or not name.startswith(SUMS):
            task = known_task(summed or name)
            seen += [] if summed else [task]
            texts = (*_how_often_and_few(config, task, counts, steps, bool(summed)), format_bytes(counts["bytes"]))
            rows.append((task.sends or task.name, [*map(TableCell, texts)]))
    if any(name.startswith(SUMS) for name in replied):
        rows.append((send_key.sends, [*map(TableCell, ("at each sum", _FEWEST["none"], "–"))]))
    heads = ["how often", "fewest rows behind a number", "largest"]
    table = ResultTable("", "", "what a client sends", heads, rows)
    notes = [lead, *_protection(config), *_readers(config, seen)]
    return PagePart("disclosure", "What leaves a client", paragraphs=notes, figures=[table])


def _how_often_and_few(
    config: Config, task: Task, counted: Mapping[str, int], steps: int, summed: bool
) -> tuple[str, str]:
    times, rounds = counted["exchanges"], getattr(config.method, "rounds", None)
    often = "once" if times == 1 else f"{times} times"
    if rounds is not None and times > 1 and times >= steps - 1:
        often = f"in each round, of {rounds} at most"
    if summed and task.fewest != "none":
        return often, f"all of {MIN_CLIENTS} clients or more: only sums are seen"
    return often, _FEWEST.get(task.fewest) or f"at least {counted.get('least') or config.data.min_members}"


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


def _readers(config: Config, tasks: Sequence[Task]) -> list[str]:
    """Say what whoever reads the messages can find out, from their forms."""
    forms = [form for task in tasks for form in task.holds.values()]
    is_private, limits = config.method.is_private(), {task.fewest for task in tasks}
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
