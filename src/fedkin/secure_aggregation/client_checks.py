"""Checks that a client makes before it takes part in a secure sum, and the tags of sums that it remembers."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from fedkin.core.client import LASTING, Client
from fedkin.core.noise import Secret
from fedkin.core.payload import Payload
from fedkin.core.refusals import objection
from fedkin.core.replies import Expected, Maybe, is_count, is_list, is_text, octets
from fedkin.secure_aggregation.masks import KEY, content, public_key, rows_of
from fedkin.secure_aggregation.sealed_shares import channel_key

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


GROUP: Expected = {"ids": is_list(is_count), "keys": octets("clients", KEY)}
"""Entries of a request: clients of a sum, and their keys."""
SIGNED_GROUP: Expected = {**GROUP, "signed": Maybe(_are_signed)}


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
