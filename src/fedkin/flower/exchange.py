"""Exchange with nodes: a message to each, and its reply or the reason why there is none."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from flwr.app import Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from fedkin.engines.flower_engine.transport import Key, poll, push
from fedkin.flower.array_layout import ArrayLayout

_LONGEST_REASON = 300
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_OF_APP = "Exception ClientAppException occurred. Message: "
"""What stands before the app's own message where Flower's simulation reports an error, see its `ClientAppException`."""

RAISED = ("error 0:", "error 2:")
"""How the reason of a reply begins if the client app failed, rather than the way to it."""


def exchange(grid: Grid, messages: Mapping[Key, Message], timeout: float) -> dict[Key, RecordDict | str]:
    """Send messages and wait for the replies; return by key the reply, or the reason why there is none.

    `timeout` is in seconds; those that have not replied by then count as missing.
    """
    answers: dict[Key, RecordDict | str] = dict.fromkeys(messages, "the message could not be sent")
    if messages:
        waiting = push(grid, messages)
        answers.update(dict.fromkeys(waiting.values(), f"no reply in {timeout:g} seconds"))
        for key, reply in poll(grid, waiting, timeout):
            answers[key] = _failure(reply) if reply.has_error() else reply.content
    return answers


def trained_model(reply: RecordDict, layout: ArrayLayout) -> Tensor | str:
    """Return the trained model ``(size,)`` of a reply, or why it is unusable."""
    records = list(reply.array_records.values())
    if len(records) != 1:
        return f"its training replied with {len(records)} ArrayRecords instead of one"
    model = layout.vector(records[0])
    return f"in its training's reply, {model}" if isinstance(model, str) else model


def weighted_metrics(reply: RecordDict, key: str) -> MetricRecord | str:
    """Return the metrics of a reply, with the weight named `key` among them, or why they are unusable."""
    records = list(reply.metric_records.values())
    if len(records) != 1:
        return f"its reply has {len(records)} MetricRecords instead of one"
    weight = records[0].get(key)
    if not isinstance(weight, int | float) or not 0 < weight < math.inf:
        what = f"is {weight}" if key in records[0] else "is absent"
        return f"'{key}' {what} in its metrics; it should be a number above 0"
    return records[0]


def _failure(reply: Message) -> str:
    """Return why a node could not do its task, in one line.

    Of an error in a simulation that is the app's own message, which comes after Ray's traceback.
    """
    given = _COLOURS.sub("", reply.error.reason or "")
    *_, own = given.rpartition(_OF_APP)
    reason = " ".join(own.removesuffix("'>").split() if own != given else given.split()) or "no reason given"
    return f"error {reply.error.code}: {reason[:_LONGEST_REASON]}"
