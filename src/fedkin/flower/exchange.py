"""Exchange with nodes: a message to each, and its reply or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedkin.engines.flower.transport import Key, poll, push

_LONGEST_REASON = 300

RAISED = ("error 0:", "error 2:")
"""How the reason of a reply begins if the client app failed, rather than the way to it."""


def exchange(grid: Grid, messages: Mapping[Key, Message], timeout: float) -> dict[Key, RecordDict | str]:
    """Send `messages` and wait for the replies.

    Parameters
    ----------
    grid : Grid
    messages : mapping
        Messages by any key.
    timeout : float
        Seconds until those that have not replied count as missing.

    Returns
    -------
    dict
        The reply of each key, or the reason why there is none.
    """
    answers: dict[Key, RecordDict | str] = dict.fromkeys(messages, "the message could not be sent")
    if messages:
        waiting = push(grid, messages)
        answers.update(dict.fromkeys(waiting.values(), f"no reply in {timeout:g} seconds"))
        for key, reply in poll(grid, waiting, timeout):
            answers[key] = _failure(reply) if reply.has_error() else reply.content
    return answers


def _failure(reply: Message) -> str:
    """Return why a node could not do its task, in one line."""
    reason = " ".join((reply.error.reason or "").split()) or "no reason given"
    return f"error {reply.error.code}: {reason[:_LONGEST_REASON]}"
