"""Messages to nodes and their replies, looked for often instead of every three seconds."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from typing import TypeVar

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 0.5
_LONGEST_REASON = 300

RAISED = ("error 0:", "error 2:")
"""How the reason of a reply begins if the client app failed, rather than the way to it."""

Key = TypeVar("Key", bound=Hashable)


def exchange(grid: Grid, messages: Mapping[Key, Message], timeout: float) -> dict[Key, RecordDict | str]:
    """Send `messages` and wait for the replies.

    Parameters
    ----------
    grid : Grid
    messages : mapping
        By any key.
    timeout : float
        Seconds until those that have not replied count as missing.

    Returns
    -------
    dict
        Each key's reply, or in its place why there is none.
    """
    answers: dict[Key, RecordDict | str] = dict.fromkeys(messages, "the message could not be sent")
    if not messages:
        return answers
    sent = set(grid.push_messages(list(messages.values())))
    waiting = {m.metadata.message_id: key for key, m in messages.items() if m.metadata.message_id in sent}
    answers.update(dict.fromkeys(waiting.values(), f"no reply in {timeout:g} seconds"))
    end, pause = time.monotonic() + timeout, _FIRST_PAUSE
    while True:
        for reply in grid.pull_messages(list(waiting)):
            key = waiting.pop(reply.metadata.reply_to_message_id)
            answers[key] = _in_short(reply) if reply.has_error() else reply.content
            pause = _FIRST_PAUSE
        if not waiting or time.monotonic() >= end:
            return answers
        time.sleep(max(0.0, min(pause, end - time.monotonic())))
        pause = min(1.5 * pause, _LONGEST_PAUSE)


def _in_short(reply: Message) -> str:
    """Why a node could not do what it was asked, in one line."""
    reason = " ".join((reply.error.reason or "").split()) or "no reason given"
    return f"error {reply.error.code}: {reason[:_LONGEST_REASON]}"
