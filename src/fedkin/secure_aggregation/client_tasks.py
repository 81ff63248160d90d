"""Task of a secure sum: run another task, and send its reply hidden by masks."""

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
from fedkin.core.payload import Payload, owned, to_bytes
from fedkin.core.replies import (
    Array,
    Expected,
    Nullable,
    Optional,
    is_count,
    is_list,
    is_name,
    is_shape,
    is_text,
    objection,
    uint8,
)
from fedkin.core.seeds import Secret
from fedkin.core.tasks import Task, client_task, known_task
from fedkin.secure_aggregation.masks import (
    KEY,
    KINDS,
    OPENER,
    OWN,
    PAIRS,
    SEALED,
    channel_key,
    content,
    context_of,
    encode,
    mask,
    opened,
    openers_of,
    own_mask,
    public_key,
    rows_of,
    share_keys,
    sum_keys,
    threshold,
)

# Checks that a client makes before it takes part in a secure sum, and the tags of sums that it remembers.


MIN_CLIENTS = 3
"""Minimum number of clients in a sum; in a sum of two, each learns the other's value."""
OTHER_KEY = "its key is another"
"""Reply of a client that has lost its memory; it is asked for its new key the next time."""
USED_TAG = "its tag has been used for another request"
TAG = 16
"""Bytes of a tag, which identifies one sum."""
MASKED, DEALERS, REVEALED = LASTING + "tags", LASTING + "dealers", LASTING + "revealed"
"""Entries of a client's state: tags of the requests it has masked replies to, of its dealers, and of the shares it has
revealed, each with a digest of the request."""
_SECRET = "sums_key"
"""Entry of a client's state: the secret that its keys follow from, uint8 ``(32,)``."""


def _are_signed(value: Any) -> bool:
    """Return whether a value is a list of clients' signatures of their keys; texts are empty where one has none."""
    want: Expected = {"signer": is_text, "signature": is_text}
    return isinstance(value, list) and all(objection(one, want) is None for one in value)


GROUP: Expected = {"ids": is_list(is_count), "keys": uint8("clients", KEY)}
"""Entries of a request: clients of a sum, and their keys."""
SIGNED_GROUP: Expected = {**GROUP, "signed": Optional(_are_signed)}


def secret_of(client: Client) -> bytes:
    """Return the secret that all keys of a client follow from; made at the first call, and kept for the run."""
    if _SECRET not in client.state:
        client.state[_SECRET] = torch.tensor(list(client.secret(KEY)), dtype=torch.uint8)
    return content(client.state[_SECRET])


def own_key(client: Client) -> bytes:
    """Return a client's public key."""
    return public_key(channel_key(secret_of(client)))


def keys_of(payload: Payload) -> dict[int, bytes]:
    """Return the clients' public keys in a request, by id."""
    return dict(zip(map(int, payload["ids"]), rows_of(payload["keys"]), strict=False))


def group_objection(client: Client, payload: Payload) -> str | None:
    """Return why a client refuses a sum among these clients with these keys; ``None`` if it takes part."""
    keys = keys_of(payload)
    if len(keys) < MIN_CLIENTS:
        return f"fewer than {MIN_CLIENTS} clients to sum over"
    if len(set(keys.values())) < len(keys):
        return "two clients have the same key"
    if _SECRET not in client.state or keys.get(client.id) != own_key(client):
        return OTHER_KEY
    if not len(payload["ids"]) == len(payload["keys"]) == len(keys):
        return "clients and keys are not one each"
    return None


def signature_objection(client: Client, payload: Payload) -> str | None:
    """Return why a client refuses the signatures of the keys in a request; ``None`` if it accepts them."""
    if client.identity is None:
        return None
    signed = dict(zip(payload["ids"], payload.get("signed", []), strict=False))
    return client.identity.objection(client.id, keys_of(payload), signed)


def are_some(ids: Sequence[int], among: Sequence[int]) -> bool:
    """Return whether `ids` are distinct and all of them in `among`."""
    return len(set(ids)) == len(ids) and set(ids) <= set(among)


def is_second(client: Client, where: str, tag: bytes, request: bytes) -> bool:
    """Return whether a tag was used before with a different request; if it is new, remember it with this one.

    The same request again, after a reply was lost, gets the same reply. What is remembered lasts, whatever a server
    says about where the run is. In a simulation nothing is secret, and nothing kept. `where` is `MASKED`, `DEALERS` or
    `REVEALED`.
    """
    if not isinstance(client.noise, Secret):
        return False
    own, known, same = _rows(client, where, tag, request)
    if not len(same):
        client.state[where] = torch.cat([known, own[None]])
    return bool((same != own).any())


def is_known(client: Client, where: str, tag: bytes, request: bytes) -> bool:
    """Return whether a tag was used before with this request, see `is_second`; always true in simulations."""
    own, _, same = _rows(client, where, tag, request)
    return not isinstance(client.noise, Secret) or bool(len(same) and (same == own).all())


def _rows(client: Client, where: str, tag: bytes, request: bytes) -> tuple[Tensor, Tensor, Tensor]:
    """Return tag and digest of a request, all remembered pairs of these, and those of the pairs with the same tag."""
    own = torch.frombuffer(bytearray(tag + sha256(request).digest()), dtype=torch.uint8)
    known = client.state.get(where, torch.zeros(0, len(own), dtype=torch.uint8))
    return own, known, known[(known[:, :TAG] == own[:TAG]).all(1)]


def names_of(ids: Sequence[int]) -> bytes:
    """Return ids as bytes that do not depend on their order."""
    return "/".join(map(str, sorted(ids))).encode()


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
        **SIGNED_GROUP, "tag": uint8(TAG), "dealers": is_list(is_count), "publics": uint8("dealers", len(KINDS), KEY),
        "shares": uint8("dealers", len(KINDS), SEALED), "task": is_name, "terms": _are_terms, "payload": _is_payload,
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


# Tasks that let a secure sum survive dropouts: distribute shares of own keys, and reveal shares of others' keys.


MAX_SUMS = 64
"""Maximum number of sums that a client distributes shares for at once."""


@client_task(takes={}, holds={"key": uint8(KEY)}, may_hold={"signer": is_text, "signature": is_text})
def send_key(client: Client, payload: Payload) -> Payload:
    """Send the client's public key, uint8 ``(32,)``; its secret is made at the first request and kept.

    A client with an identity signs it.
    """
    own = own_key(client)
    signed = client.identity.sign(own) if client.identity else {}
    return {"key": octets_of(own), **signed}


@client_task(
    takes={**SIGNED_GROUP, "tags": uint8("sums", TAG)},
    may_hold={"publics": uint8(None, len(KINDS), KEY), "shares": uint8(None, None, len(KINDS), SEALED),
              "refused": is_text},
)  # fmt: skip
def send_shares(client: Client, payload: Payload) -> Payload:
    """Send the client's public keys of each sum, and encrypted shares of the private ones for each of the others.

    A reply has ``publics``, uint8 ``(sums, 2, 32)``, and ``shares``, uint8 ``(sums, clients, 2, 48)``; or why not.
    """
    if (reason := group_objection(client, payload) or signature_objection(client, payload)) is not None:
        return {"refused": reason}
    if len(payload["tags"]) > MAX_SUMS:
        return {"refused": f"more than {MAX_SUMS} sums at once"}
    try:
        return _shared(client, payload)
    except ValueError:
        return {"refused": "a key is invalid"}


def _shared(client: Client, payload: Payload) -> Payload:
    keys, secret = keys_of(payload), secret_of(client)
    shared = [share_keys(secret, client.id, keys, context_of(content(tag), keys)) for tag in payload["tags"]]
    return {
        "publics": octets_of(b"".join(key for one in shared for key in one.publics), -1, len(KINDS), KEY),
        "shares": octets_of(
            b"".join(sealed for one in shared for both in one.shares for sealed in both),
            len(shared), len(keys), len(KINDS), SEALED,
        ),
    }  # fmt: skip


@client_task(
    takes={**GROUP, "tag": uint8(TAG), "survivors": is_list(is_count), "dropped": is_list(is_count)},
    may_hold={"own": uint8(None, OPENER), "pairs": uint8(None, OPENER), "refused": is_text},
)
def reveal_shares(client: Client, payload: Payload) -> Payload:
    """Reveal shares of keys: for the individual masks of survivors, and the pairwise masks of those that dropped out.

    A reply has ``own``, uint8 ``(survivors, 16)``, and ``pairs``, uint8 ``(dropped, 16)``; or why not. A client answers
    once per sum, and never both for the same client: whoever has both takes all masks off.
    """
    reason, tag = group_objection(client, payload) or _unfit_share(client, payload), content(payload["tag"])
    if reason is None and is_second(client, REVEALED, tag, to_bytes(owned(payload))):
        reason = USED_TAG
    return {"refused": reason} if reason else _revealed(client, payload)


def _unfit_share(client: Client, payload: Payload) -> str | None:
    """Return why a client reveals nothing for these lists of survivors and dropouts; ``None`` if it does."""
    survivors, needed = payload["survivors"], threshold(len(payload["ids"]))
    if not are_some([*survivors, *payload["dropped"]], payload["ids"]):
        return "survivors and dropped are not different clients of the sum"
    if client.id not in survivors:
        return "it is not among the survivors"
    everyone = names_of([*survivors, *payload["dropped"]])
    if not is_known(client, DEALERS, content(payload["tag"]), everyone):
        return "it shares no masks with just these clients"
    return None if len(survivors) >= needed else f"fewer than {needed} survivors"


def _revealed(client: Client, payload: Payload) -> Payload:
    keys, channel = keys_of(payload), channel_key(secret_of(client))
    context = context_of(content(payload["tag"]), keys)

    def revealed(dealers: Sequence[int], kind: int) -> Tensor:
        openers = [openers_of(channel, keys[dealer], dealer, client.id, context)[kind] for dealer in dealers]
        return octets_of(b"".join(openers), len(dealers), OPENER)

    try:
        return {"own": revealed(payload["survivors"], OWN), "pairs": revealed(payload["dropped"], PAIRS)}
    except ValueError:
        return {"refused": "a key is invalid"}


def octets_of(content: bytes, *shape: int) -> Tensor:
    """Return bytes as a uint8 tensor of the given shape, by default ``(n,)``."""
    flat = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.zeros(0, dtype=torch.uint8)
    return flat.view(shape or (len(content),))
