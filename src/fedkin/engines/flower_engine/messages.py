"""Messages over a Flower grid, both ways: how they are encoded, sent and polled for, and answered at a node.

Flower polls every three seconds; this polls more often.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from fedkin.core import FedkinError, Payload
from fedkin.core.files import FileError, room
from fedkin.core.payload import Failure, failure_of, from_bytes, to_bytes
from fedkin.engines.site import Request, Site

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
    end, pause = time.monotonic() + timeout, 0.05
    while waiting:
        replies = list(grid.pull_messages(list(waiting)))
        for reply in replies:
            yield waiting.pop(reply.metadata.reply_to_message_id), reply
        remaining = end - time.monotonic()
        if not waiting or remaining <= 0:
            return
        between(bool(replies))
        pause = 0.05 if replies else min(0.5, 1.2 * pause)  # seconds
        time.sleep(min(pause, remaining))


# A message holds a ConfigRecord ``fedkin`` with strings and numbers, and may hold an ArrayRecord ``payload`` whose
# one Array is the payload as safetensors with JSON in its header. Nothing in it is ever unpickled, by either side.


HELLO, TASK, KEEP, REFUSED = "hello", "task", "keep", "refused"
"""Kinds of messages to a site: introduce yourself; do a task; save this as your result; you do not take part."""

TYPE = "query"
"""Flower's message type of all of them; not "train", for which Flower's own mods expect something else."""

_FACTS, _PAYLOAD, _STYPE = "fedkin", "payload", "safetensors"


@dataclass(frozen=True)
class Content:
    """Content of a message: plain values, and a payload or ``None``.

    `facts` are strings and numbers; the payload is a safetensors file, see `fedkin.core.payload.to_bytes`.
    """

    facts: dict[str, str | int | float]
    payload: bytes | None = None

    def tree(self) -> Payload:
        """Return the payload as a tree; empty if there is none.

        Raises FedkinError if it is not safetensors as fedkin writes them.
        """
        tree = {} if self.payload is None else from_bytes(self.payload)
        if not isinstance(tree, dict):
            raise FedkinError("The payload is not a dictionary.")
        return tree

    def text(self, name: str) -> str:
        """Return a fact that is a string; empty if it is absent or something else."""
        value = self.facts.get(name, "")
        return value if isinstance(value, str) else ""


def content(payload: Payload | bytes | None = None, **facts: str | int | float) -> RecordDict:
    """Encode facts and a payload, which may be packed into bytes already, as the content of a message."""
    records = RecordDict({_FACTS: ConfigRecord(dict(facts))})
    if payload is not None:
        data = payload if isinstance(payload, bytes) else to_bytes(payload)
        records[_PAYLOAD] = ArrayRecord({_PAYLOAD: Array("uint8", (len(data),), _STYPE, data)})
    return records


def read(records: RecordDict) -> Content:
    """Decode the content of a message that `content` has encoded.

    Raises FedkinError if `content` did not make the records, as with arrays that NumPy would load.
    """
    facts, arrays = records.get(_FACTS), records.get(_PAYLOAD)
    if not isinstance(facts, ConfigRecord) or not isinstance(arrays, ArrayRecord | None):
        raise FedkinError("It is not one of fedkin's messages.")
    if arrays is None:
        return Content(dict(facts))  # type: ignore[arg-type]
    array = arrays.get(_PAYLOAD)
    if array is not None and len(array.data) > room():
        raise FedkinError(f"Its payload has {len(array.data) / 1e9:,.1f} GB, more than this machine has memory for.")
    if len(arrays) != 1 or array is None or array.stype != _STYPE:
        raise FedkinError("Its payload is not safetensors, and nothing else is ever opened.")
    return Content(dict(facts), array.data)  # type: ignore[arg-type]


def in_one_line(text: str, maximum: int) -> str:
    """Return a text from a site on one line of at most `maximum` characters, without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:maximum]).strip()


# The node's side.


_OWN = "its site file, data or private folder cannot be used; its own log says more"
"""All that a server learns of an error in a site's files, whose message may hold a path or a cell of the data."""
_log = logging.getLogger(__name__)

Keep = Callable[[Site, Request, Payload], None]


def client_app(site_of: Callable[[Context], Site], keep: Keep) -> ClientApp:
    """Return a ClientApp that introduces a site, runs tasks on its data, and saves its results.

    `site_of` gives the site that a node stands for, and `keep` writes its part of a result into its folder. Of an error
    at a site the server learns what of it is public, see `fedkin.core.FedkinError`, or its type alone; the site's log
    has its sentence. A simulated site has no secrets from whoever simulates it.
    """
    app = ClientApp()

    @app.query()
    def query(message: Message, context: Context) -> Message:
        return Message(_answer(message.content, context, site_of, keep), reply_to=message)

    return app


def _answer(records: RecordDict, context: Context, site_of: Callable[[Context], Site], keep: Keep) -> RecordDict:
    """Return a site's answer to a message of the server."""
    site = None
    try:
        try:
            site = site_of(context)
        except FedkinError as error:
            raise FileError(f"{error} Once that is mended, start the site again.") from error
        query = read(records)
        kind = query.text("kind")
        if kind == HELLO:
            return content(site.introduction(query.facts.get("labels") == 1))
        if kind == REFUSED:
            _log.error("fedkin: The server refuses this site: %s", in_one_line(query.text("reason"), 1000))
            return content()
        request = Request.from_json(query.text("request"))
        if kind == TASK:
            reply, seconds = site.answer(request, query.tree())
            return content(reply, seconds=seconds)
        if kind == KEEP:
            keep(site, request, query.tree())
            return content()
        raise FedkinError(f"Messages of kind '{kind}' are not known here.", public=True)
    except FileError as error:
        _log.error("fedkin: %s", error)
        return content(refusal=_OWN)
    except FedkinError as error:
        _log.error("fedkin: %s", error)
        # A simulation is of one machine and one owner.
        failure = Failure(error.kind, str(error)) if site and site.simulated else failure_of(error)
    except Exception as error:
        _log.exception("fedkin: What the server asked could not be done")
        failure = failure_of(error)
    return content(refusal=str(failure), failure=failure.kind)
