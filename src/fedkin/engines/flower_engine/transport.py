"""Messages over a Flower grid: sends them, and polls for replies more often than Flower's own three seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TypeVar

from flwr.app import Message
from flwr.serverapp import Grid

_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.05, 0.5, 1.2
"""Seconds between two polls, at first and at most, and the factor between two pauses without a reply."""

Key = TypeVar("Key", bound=Hashable)


def push(grid: Grid, messages: Mapping[Key, Message]) -> dict[str, Key]:
    """Send messages, given by any key; return the keys of those that were sent, by Flower's message id."""
    sent = set(grid.push_messages(list(messages.values())))
    return {m.metadata.message_id: key for key, m in messages.items() if m.metadata.message_id in sent}


def poll(
    grid: Grid, waiting: dict[str, Key], timeout: float, between: Callable[[bool], None] = lambda arrived: None
) -> Iterator[tuple[Key, Message]]:
    """Yield (key, reply) as replies arrive, until all have arrived or the `timeout`, in seconds, is up.

    `waiting` has the keys by message id, as `push` returns them. Those with a reply are removed; what is left had none
    in time. `between` is called after every poll that leaves something to wait for, with whether it brought a reply; it
    may change `waiting`.
    """
    end, pause = time.monotonic() + timeout, _FIRST_PAUSE
    while waiting:
        replies = list(grid.pull_messages(list(waiting)))
        for reply in replies:
            yield waiting.pop(reply.metadata.reply_to_message_id), reply
        left = end - time.monotonic()
        if not waiting or left <= 0:
            return
        between(bool(replies))
        pause = _FIRST_PAUSE if replies else min(_LONGEST_PAUSE, _GROWTH * pause)
        time.sleep(min(pause, left))
