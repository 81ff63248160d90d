"""Task of a secure sum: run another task, and send its reply hidden by masks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedkin.core.client import Client
from fedkin.core.errors import FedkinError
from fedkin.core.payload import Payload
from fedkin.core.refusals import objection
from fedkin.core.replies import Array, Expected, Nullable, is_count, is_list, is_name, is_shape, is_text, octets
from fedkin.core.tasks import Task, client_task, known_task
from fedkin.core.trees import owned, to_bytes
from fedkin.secure_aggregation.client_checks import (
    DEALERS,
    MASKED,
    SIGNED_GROUP,
    TAG,
    USED_TAG,
    are_some,
    group_objection,
    is_second,
    keys_of,
    names_of,
    secret_of,
    signature_objection,
)
from fedkin.secure_aggregation.masks import KEY, content, context_of, encode, mask, own_mask, rows_of
from fedkin.secure_aggregation.sealed_shares import (
    KINDS,
    OPENER,
    OWN,
    PAIRS,
    SEALED,
    channel_key,
    opened,
    openers_of,
    sum_keys,
)
from fedkin.secure_aggregation.shamir import threshold

STILL_SEALED = "it cannot open its shares of others' keys"


@dataclass(frozen=True)
class Term:
    """A tensor or number of a reply that is summed over clients; its shape is ``()`` for a number.

    `factor` is the name of a number in the reply that it is multiplied by, at the client.
    """

    name: str
    shape: tuple[int, ...] = ()
    factor: str | None = None


def _are_terms(value: Any) -> bool:
    """Return whether a value is a list of `Term` as plain values."""
    want: Expected = {"name": is_name, "shape": _is_term_shape, "factor": Nullable(is_name)}
    return isinstance(value, list) and all(objection(term, want) is None for term in value)


def _is_term_shape(value: Any) -> bool:
    return isinstance(value, list | tuple) and (not value or is_shape(list(value)))


def _is_payload(value: Any) -> bool:
    return isinstance(value, dict)


@client_task(
    takes={
        **SIGNED_GROUP, "tag": octets(TAG), "dealers": is_list(is_count), "publics": octets("dealers", len(KINDS), KEY),
        "shares": octets("dealers", len(KINDS), SEALED), "task": is_name, "terms": _are_terms, "payload": _is_payload,
    },
    may_hold={
        "masked": Array((None,), torch.int64, -(2.0**63), 2.0**63), "refused": is_text, "sealed": is_list(is_count),
    },
)  # fmt: skip
def masked(client: Client, payload: Payload) -> Payload:
    """Run the given task, and send the terms of its reply masked, as ``masked``, int64; or why not, as ``refused``.

    A client that cannot decrypt its shares of others' keys names those dealers in ``sealed``.
    """
    reason = group_objection(client, payload) or signature_objection(client, payload) or _unfit(client, payload)
    if reason is not None:
        return {"refused": reason}
    if sealed := _still_sealed(client, payload):
        return {"refused": STILL_SEALED, "sealed": sealed}
    if _is_replayed(client, payload):
        return {"refused": USED_TAG}
    [reply] = _inner(payload["task"], payload["payload"]).run([client], [payload["payload"]])
    try:
        return {"masked": _hidden(client, reply, payload)}
    except ValueError as error:
        return {"refused": str(error)}


def _unfit(client: Client, payload: Payload) -> str | None:
    """Return why a client refuses to share masks with these dealers; ``None`` if it accepts them."""
    dealers, needed = payload["dealers"], threshold(len(payload["ids"]))
    if not are_some(dealers, payload["ids"]) or len(dealers) != len(payload["publics"]):
        return "the dealers are not different clients of the sum"
    if client.id not in dealers:
        return "it is not among the dealers"
    return None if len(dealers) >= needed else f"fewer than {needed} of {len(payload['ids'])} clients are dealers"


def _still_sealed(client: Client, payload: Payload) -> list[int]:
    """Return the dealers whose shares this client cannot decrypt, because they or their public keys were altered."""
    keys, channel = keys_of(payload), channel_key(secret_of(client))
    context, sealed = _shares_context(payload, keys), []
    publics, shares = rows_of(payload["publics"]), rows_of(payload["shares"])
    for at, dealer in enumerate(payload["dealers"]):
        try:
            openers = openers_of(channel, keys[dealer], dealer, client.id, context)
        except ValueError:  # no key at all
            openers = (bytes(OPENER), bytes(OPENER))
        theirs = slice(at * len(KINDS), (at + 1) * len(KINDS))
        parts = zip(KINDS, openers, shares[theirs], strict=True)
        if any(opened(opener, share, publics[theirs], kind) is None for kind, opener, share in parts):
            sealed.append(dealer)
    return sealed


def _is_replayed(client: Client, payload: Payload) -> bool:
    """Return whether the tag was used before with another request, see `is_second`.

    The same tag gives the same masks, so the difference of two replies would be that of what they hide.
    """
    request, tag = to_bytes(owned(payload)) + str(client.rng.initial_seed()).encode(), content(payload["tag"])
    return is_second(client, MASKED, tag, request) or is_second(client, DEALERS, tag, names_of(payload["dealers"]))


def _hidden(client: Client, reply: Payload, payload: Payload) -> Tensor:
    """Return the client's masked values, int64 ``(length,)``.

    Raises ValueError if a number of the reply cannot be summed, or a key is invalid.
    """
    keys = keys_of(payload)
    values = torch.cat([values_of(reply, Term(**term)) for term in payload["terms"]])
    whole = encode(values, len(keys)).numpy().view(np.uint64)
    publics = dict(zip(payload["dealers"], rows_of(payload["publics"][:, PAIRS]), strict=True))
    shares = _shares_context(payload, keys)
    context = mask_context(shares, publics, question(payload))
    private = sum_keys(secret_of(client), shares)
    for cover in (
        mask(client.id, private[PAIRS], publics, context, len(values)),
        own_mask(client.id, private[OWN], context, len(values)),
    ):
        whole = whole + cover.numpy().view(np.uint64)
    return torch.from_numpy(whole.view(np.int64))


def _shares_context(payload: Payload, keys: Mapping[int, bytes]) -> bytes:
    return context_of(content(payload["tag"]), keys)


def mask_context(shares: bytes, publics: Mapping[int, bytes], asked: bytes) -> bytes:
    """Return bytes that identify the masks of a sum.

    `shares` identifies the shares of the sum, see `context_of`; `publics` are the public keys of those who share masks,
    by id; `asked` is the digest of what they are all asked, see `question`.
    """
    return context_of(asked + shares, publics)


def question(payload: Payload) -> bytes:
    """Return a digest of what is summed: masks cancel only among clients that are all asked the same.

    Otherwise a server could ask the others for what it knows beforehand, and take it off the sum.
    """
    asked = {name: payload[name] for name in ("task", "terms", "payload")}
    return sha256(to_bytes(owned(asked))).digest()


def values_of(reply: Payload, term: Term) -> Tensor:
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
    """Return the task called `name`, after checking that it may be summed and takes this payload."""
    found = known_task(name)
    if (reason := found.objection(payload)) is not None:
        raise FedkinError(f"Task '{name}' is not done with this request: {reason}.", public=True)
    if found.moves_data:  # whoever made the others of a sum can take their masks off
        raise FedkinError(f"Task '{name}' would have samples sent away, so it is not summed.", public=True)
    return found
