"""Tasks of a secure sum: send a public key, and send a reply hidden by masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedkin.core.client import LASTING, Client
from fedkin.core.errors import FedkinError
from fedkin.core.noise import Secret
from fedkin.core.payload import Payload
from fedkin.core.refusals import objection
from fedkin.core.replies import Array, Expected, Maybe, Nullable, is_count, is_list, is_name, is_shape, is_text, octets
from fedkin.core.task import Task, known_task, task
from fedkin.core.trees import owned, to_bytes
from fedkin.secure.masks import KEY, context_of, encode, mask, public_key

MIN_CLIENTS = 3
"""Minimum number of clients in a sum; in a sum of two, each learns the other's value."""
OTHER_KEY = "its key is another"
"""Reply of a client that has lost its memory; it is asked for its new key the next time."""
_TAG, _TAGS = 16, LASTING + "tags"
"""Bytes of a tag; where a client's state has those it has answered, each with a digest of the request."""
_PRIVATE = "sums_key"
"""Where a client's state has its private key, uint8 ``(32,)``."""


@dataclass(frozen=True)
class Term:
    """A tensor or number that is summed.

    Attributes
    ----------
    name : str
        Of a tensor or number in the reply.
    shape : tuple of int
        Its shape; ``()`` for a number.
    factor : str or None
        Name of a number in the reply that it is multiplied by, at the client.
    """

    name: str
    shape: tuple[int, ...] = ()
    factor: str | None = None


def _are_terms(value: Any) -> bool:
    """Whether it is a list of `Term` as plain values."""
    want: Expected = {"name": is_name, "shape": _is_term_shape, "factor": Nullable(is_name)}
    return isinstance(value, list) and all(objection(term, want) is None for term in value)


def _is_term_shape(value: Any) -> bool:
    return isinstance(value, list | tuple) and (not value or is_shape(list(value)))


def _is_payload(value: Any) -> bool:
    return isinstance(value, dict)


def _are_signed(value: Any) -> bool:
    """Whether it is a list of what clients have signed their keys with; empty texts where one has not."""
    want: Expected = {"signer": is_text, "signature": is_text}
    return isinstance(value, list) and all(objection(one, want) is None for one in value)


@task(takes={}, holds={"key": octets(KEY)}, may_hold={"signer": is_text, "signature": is_text})
def send_key(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Report the public key, uint8 ``(32,)``; the private one is made at the first request and kept.

    A client with an identity signs it.
    """
    replies: list[Payload] = []
    for client in clients:
        if _PRIVATE not in client.state:
            client.state[_PRIVATE] = torch.tensor(list(client.secret(KEY)), dtype=torch.uint8)
        own = public_key(_private(client))
        signed = client.identity.sign(own) if client.identity else {}
        replies.append({"key": torch.tensor(list(own), dtype=torch.uint8), **signed})
    return replies


@task(
    takes={
        "task": is_name, "terms": _are_terms, "ids": is_list(is_count), "keys": octets("clients", KEY),
        "tag": octets(_TAG), "payload": _is_payload, "signed": Maybe(_are_signed),
    },
    may_hold={"masked": Array((None,), torch.int64, -(2.0**63), 2.0**63), "refused": is_text},
)  # fmt: skip
def masked(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Do the given task, and report the terms of its reply as ``masked``, int64; or why not."""
    replies: list[Payload] = []
    for client, payload in zip(clients, payloads, strict=True):
        keys = {int(i): bytes(key.tolist()) for i, key in zip(payload["ids"], payload["keys"], strict=False)}
        reason = _objection(client, keys, dict(zip(payload["ids"], payload.get("signed", []), strict=False)))
        if reason is None and not len(payload["ids"]) == len(payload["keys"]) == len(keys):
            reason = "clients and keys are not one each"
        if reason is None and _replayed(client, payload):
            reason = "its tag has been used for another request"
        if reason is None:
            [reply] = _inner(payload["task"], payload["payload"]).run([client], [payload["payload"]])
            try:
                replies.append({"masked": _hidden(client, reply, payload, keys)})
                continue
            except ValueError as error:
                reason = str(error)
        replies.append({"refused": reason})
    return replies


def _objection(client: Client, keys: Mapping[int, bytes], signed: Mapping[int, Mapping[str, str]]) -> str | None:
    """Return why a client refuses a sum with these keys; ``None`` if it takes part."""
    if len(keys) < MIN_CLIENTS:
        return f"fewer than {MIN_CLIENTS} clients to sum over"
    if len(set(keys.values())) < len(keys):
        return "two clients have the same key"
    if _PRIVATE not in client.state or keys.get(client.id) != public_key(_private(client)):
        return OTHER_KEY
    return client.identity.objection(client.id, keys, signed) if client.identity else None


def _replayed(client: Client, payload: Payload) -> bool:
    """Whether the tag came before with another request; if not, it is remembered with this one.

    The same tag gives the same masks, so the difference of two replies would be that of what they hide. The same
    request again, after a reply was lost, gets the same reply. In a simulation nothing is secret, and nothing kept.
    """
    if not isinstance(client.noise, Secret):
        return False
    request = to_bytes(owned(payload)) + str(client.rng.initial_seed()).encode()
    own = torch.frombuffer(bytearray(bytes(payload["tag"].tolist()) + sha256(request).digest()), dtype=torch.uint8)
    known = client.state.get(_TAGS, torch.zeros(0, len(own), dtype=torch.uint8))
    same = known[(known[:, :_TAG] == own[:_TAG]).all(1)]
    if not len(same):
        client.state[_TAGS] = torch.cat([known, own[None]])
    return bool((same != own).any())


def _hidden(client: Client, reply: Payload, payload: Payload, keys: Mapping[int, bytes]) -> Tensor:
    """Return the client's masked values: int64 ``(length,)``.

    Raises
    ------
    ValueError
        If a number of the reply cannot be summed, or a key is invalid.
    """
    values = torch.cat([_values(reply, Term(**term)) for term in payload["terms"]])
    whole = encode(values, len(keys)).numpy().view(np.uint64)
    context = context_of(bytes(payload["tag"].tolist()) + _question(payload), keys)
    cover = mask(client.id, _private(client), keys, context, len(values)).numpy().view(np.uint64)
    return torch.from_numpy((whole + cover).view(np.int64))


def _question(payload: Payload) -> bytes:
    """A digest of what is summed: masks cancel only among clients that are all asked the same.

    Otherwise a server could ask the others for what it knows beforehand, and take it off the sum.
    """
    asked = {name: payload[name] for name in ("task", "terms", "payload")}
    return sha256(to_bytes(owned(asked))).digest()


def _values(reply: Payload, term: Term) -> Tensor:
    """Return the values of one term in a reply, float64 ``(length,)``."""
    value = torch.as_tensor(reply[term.name], dtype=torch.float64)
    if value.shape != torch.Size(term.shape):
        raise ValueError(f"'{term.name}' has shape {tuple(value.shape)} where {tuple(term.shape)} was expected")
    if term.factor is not None:
        value = value * float(reply[term.factor])
    if not bool(value.isfinite().all()):
        raise ValueError(f"'{term.name}' is not finite")
    return value.flatten()


def _inner(name: str, payload: Payload) -> Task:
    """The task called `name`, if it may be summed and takes this payload."""
    found = known_task(name)
    if (reason := found.objection(payload)) is not None:
        raise FedkinError(f"Task '{name}' is not done with this request: {reason}.")
    if found.moves_data:  # whoever made the others of a sum can take their masks off
        raise FedkinError(f"Task '{name}' would have samples sent away, so it is not summed.")
    return found


def _private(client: Client) -> bytes:
    return bytes(client.state[_PRIVATE].tolist())
