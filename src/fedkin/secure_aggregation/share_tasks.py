"""Tasks that let a secure sum survive dropouts: distribute shares of own keys, and reveal shares of others' keys."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedkin.core.client import Client
from fedkin.core.payload import Payload
from fedkin.core.replies import is_count, is_list, is_text, octets
from fedkin.core.tasks import client_task
from fedkin.core.trees import owned, to_bytes
from fedkin.secure_aggregation.client_checks import (
    DEALERS,
    GROUP,
    REVEALED,
    SIGNED_GROUP,
    TAG,
    USED_TAG,
    are_some,
    group_objection,
    is_known,
    is_second,
    keys_of,
    names_of,
    own_key,
    secret_of,
    signature_objection,
)
from fedkin.secure_aggregation.masks import KEY, content, context_of
from fedkin.secure_aggregation.sealed_shares import (
    KINDS,
    OPENER,
    OWN,
    PAIRS,
    SEALED,
    channel_key,
    openers_of,
    share_keys,
)
from fedkin.secure_aggregation.shamir import threshold

MAX_SUMS = 64
"""Maximum number of sums that a client distributes shares for at once."""


@client_task(takes={}, holds={"key": octets(KEY)}, may_hold={"signer": is_text, "signature": is_text})
def send_key(client: Client, payload: Payload) -> Payload:
    """Send the client's public key, uint8 ``(32,)``; its secret is made at the first request and kept.

    A client with an identity signs it.
    """
    own = own_key(client)
    signed = client.identity.sign(own) if client.identity else {}
    return {"key": octets_of(own), **signed}


@client_task(
    takes={**SIGNED_GROUP, "tags": octets("sums", TAG)},
    may_hold={"publics": octets(None, len(KINDS), KEY), "shares": octets(None, None, len(KINDS), SEALED),
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
    takes={**GROUP, "tag": octets(TAG), "survivors": is_list(is_count), "dropped": is_list(is_count)},
    may_hold={"own": octets(None, OPENER), "pairs": octets(None, OPENER), "refused": is_text},
)
def reveal_shares(client: Client, payload: Payload) -> Payload:
    """Reveal shares of keys: for the individual masks of survivors, and the pairwise masks of those that dropped out.

    A reply has ``own``, uint8 ``(survivors, 16)``, and ``pairs``, uint8 ``(dropped, 16)``; or why not. A client answers
    once per sum, and never both for the same client: whoever has both takes all masks off.
    """
    reason, tag = group_objection(client, payload) or _unfit(client, payload), content(payload["tag"])
    if reason is None and is_second(client, REVEALED, tag, to_bytes(owned(payload))):
        reason = USED_TAG
    return {"refused": reason} if reason else _revealed(client, payload)


def _unfit(client: Client, payload: Payload) -> str | None:
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
